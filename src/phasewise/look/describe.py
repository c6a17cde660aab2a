"""A look in ten lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.model.kernel_names import shorten_kernel
from phasewise.model.seconds import format_seconds
from phasewise.records.analyse import Finding
from phasewise.records.look import Look
from phasewise.records.profile import Breakdown, Region

# of a list in one line
SHOWN = 5
# findings that have a line each
FINDINGS = 3
# less of a step is not worth a word
LEAST_SHARE = 0.01
# as readers call the parts of a step
PARTS = {
    "kernel_s": "kernels", "launch_gap_s": "launch gaps", "sync_wait_s": "waits for the device", "copy_s": "copies",
    "communication_s": "communication", "input_s": "input", "host_s": "host",
}  # fmt: skip


def describe_look(found: Look) -> str:
    """Where the time of a step goes, what holds it back, and what was not seen."""
    lines = [f"{found.script}: a step takes {describe_step(found)}"]
    told = {
        "time": ", ".join(f"{name} {share:.0%}" for name, share, _ in list_parts(found)),
        "modules": describe_regions(found.profile.regions),
        "kernels" if found.machine.kind == "cuda" else "operators": describe_kernels(found),
        "waits": describe_waits(found),
        "memory": describe_memory(found),
        "ceilings": describe_ceilings(found),
    }
    lines += [f"  {name:<9} {text}" for name, text in told.items() if text]
    held = list_found(found.findings)
    for one in held[:FINDINGS]:
        lines.append(f"  finding   {describe_finding(one)}")
    if not held:
        lines.append("  finding   none of the catalogue holds this step back")
    elif len(held) > FINDINGS:
        lines.append(f"  finding   and {', '.join(one.finding for one in held[FINDINGS:])}")
    lines.append(f"  unseen    {'; '.join(found.unseen[:2])}, and {len(found.unseen) - 2} more (--page, --json)")
    return "\n".join(lines)


def describe_step(found: Look) -> str:
    """Its time, and what it is."""
    time = found.step_s
    spread = f"{format_seconds(time.estimate)} [{format_seconds(time.low)}, {format_seconds(time.high)}]"
    return f"{spread} on {found.machine.name}; {describe_kind(found)}, {found.profile.steps} of them traced after {found.warmup}"


def describe_kind(found: Look) -> str:
    """What is taken for a step."""
    kinds = {"optimizer": f"a step of {found.step_name}", "call": f"from one call of {found.step_name} to the next"}
    return kinds.get(found.step_kind, f"from one call of {found.step_name}() to the next")


def list_parts(found: Look) -> list[tuple[str, float, float]]:
    """Name, share and seconds of the traced step's parts, the largest first; small ones are left out."""
    breakdown = found.profile.breakdown or Breakdown(wall_s=0.0)
    parts = [(name, float(getattr(breakdown, field))) for field, name in PARTS.items()]
    told = [(name, seconds / breakdown.wall_s, seconds) for name, seconds in parts if breakdown.wall_s > 0]
    return sorted((part for part in told if part[1] >= LEAST_SHARE), key=lambda part: -part[1])


def describe_regions(regions: Sequence[Region]) -> str:
    """The longest; one that holds others counts in full."""
    shown = [one for one in regions if one.share >= LEAST_SHARE][:SHOWN]
    return ", ".join(f"{name_region(one.name)} {one.share:.0%}" for one in shown)


def name_region(name: str) -> str:
    """Without what torch puts in front of the names of its own."""
    first, _, rest = name.partition("#")
    return rest if rest and first.startswith("Optimizer.") else first


def describe_kernels(found: Look) -> str:
    """The longest, per step."""
    shown = found.profile.kernels[:SHOWN]
    return ", ".join(f"{shorten_kernel(one.name)} {format_seconds(one.seconds)} ({one.calls:g}x)" for one in shown)


def describe_waits(found: Look) -> str:
    """What the host waited for and copied, per step; "" where there is no device to wait for."""
    count = found.profile.count
    if found.machine.kind != "cuda":
        return ""
    copies = f"{count.host_to_device:g} copies to the device and {count.device_to_host:g} back, {format_bytes(count.copied_bytes)}"
    return f"{count.synchronisations:g} synchronisations, {copies}, {count.launches:g} launches"


def describe_memory(found: Look) -> str:
    """The peak, and of what; "" where none was recorded."""
    memory = found.profile.memory
    if memory.peak_bytes is None:
        return ""
    whole = f" of {format_bytes(memory.capacity_bytes)}" if memory.capacity_bytes else ""
    calls = f", {memory.allocations_per_step:g} allocations a step" if memory.allocations_per_step is not None else ""
    what = "peak" if found.machine.kind == "cuda" else "peak over what there was when tracing began"
    return f"{what} {format_bytes(memory.peak_bytes)}{whole}{calls}"


def format_bytes(size: float) -> str:
    """Three digits with a unit that suits them."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.3g} B"


def describe_ceilings(found: Look) -> str:
    """What products and launches take at least, as shares of the step."""
    step_s = found.step_s.estimate
    told = [
        f"{one.what} would take {format_seconds(one.seconds)}, {one.seconds / step_s:.0%} of the step ({one.basis})"
        for one in found.ceilings
    ]
    return "; ".join(told)


def list_found(findings: Sequence[Finding]) -> list[Finding]:
    """Those that hold, the one that holds most of the step first."""
    return sorted((one for one in findings if one.outcome == "found"), key=lambda one: (-one.seconds, one.finding))


def describe_finding(one: Finding) -> str:
    """What it holds, its evidence, and its cure."""
    held = f"{one.finding} holds {format_seconds(one.seconds)} ({one.share:.0%})" if one.seconds else one.finding
    return f"{held}: {'; '.join(one.evidence)}. {one.advice}"
