"""From a profile and the machine's peaks to findings, ceilings, and what was not seen. Nothing is run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from phasewise.analyse.diagnose import diagnose, split_step
from phasewise.analyse.evidence import Evidence
from phasewise.analyse.floor import find_floor
from phasewise.records.analyse import Finding
from phasewise.records.base import Seconds
from phasewise.records.look import Ceiling
from phasewise.records.machine import Machine
from phasewise.records.prepare import CaseWork
from phasewise.records.profile import CaseProfile, Operator

# recurrent layers, and the products and convolutions of compiled code on a CPU
UNCOUNTED = ("aten::_cudnn_rnn", "aten::mkldnn_rnn_layer", "mkldnn::")


def find_findings(profile: CaseProfile, machine: Machine, step_s: Seconds) -> tuple[Finding, ...]:
    """The catalogue on one step of a script."""
    work = count_work(profile, machine)
    return diagnose(
        Evidence(
            profile=profile,
            machine=machine,
            work=work,
            floor=find_floor(work, machine),
            step_s=step_s,
            pools=split_step(profile, step_s, cuda=machine.kind == "cuda"),
        )
    )


def count_work(profile: CaseProfile, machine: Machine) -> CaseWork:
    """The operations of products, convolutions and attention that the trace counts; bytes are not known."""
    counted = [operator for operator in profile.operators if operator.flops]
    # a CPU has no tf32
    precision = str(profile.facts.get("float32_matmul_precision", "")) if machine.kind == "cuda" else ""
    return CaseWork(
        case=profile.case, items=1.0, flops=sum(operator.flops or 0.0 for operator in counted), bytes=0.0,
        working_set_bytes=0.0, dtype=_find_dtype(counted, precision),
        counted=True,
    )  # fmt: skip


def _find_dtype(counted: Iterable[Operator], precision: str) -> str:
    """In which most operations are done, as `Peaks.matmul_flops_per_s` names it."""
    sums: Counter[str] = Counter()
    for operator in counted:
        sums[operator.shapes.partition("[")[0]] += int(operator.flops or 0.0)
    dtype = max(sums, key=lambda name: (sums[name], name), default="float32")
    return "tf32" if dtype == "float32" and precision in ("high", "medium") else dtype


def find_ceilings(profile: CaseProfile, machine: Machine) -> tuple[Ceiling, ...]:
    """What the products and the launches of a step take at least."""
    work, peaks = count_work(profile, machine), machine.peaks
    found: list[Ceiling] = []
    floor = find_floor(work, machine)
    if floor is not None and peaks is not None:
        rate = work.flops / floor.flops_s
        basis = f"{work.flops:.3g} operations in {work.dtype} at {rate:.3g} a second"
        found.append(Ceiling(what="products", seconds=floor.flops_s, basis=basis))
    launches = profile.count.launches
    if peaks is not None and peaks.launch_s and launches:
        basis = f"{launches:.3g} at {1e6 * peaks.launch_s:.3g} µs each"
        found.append(Ceiling(what="launches", seconds=launches * peaks.launch_s, basis=basis))
    return tuple(found)


def list_unseen(profile: CaseProfile, findings: Iterable[Finding], warmup: int) -> tuple[str, ...]:
    """What the look can't tell, one sentence each."""
    found = [f"the first {warmup} steps and what comes before them: start, compilation, loading"]
    found.append("other processes: workers of a data loader, other ranks")
    if profile.attributed_by == "none":
        found.append("kernels within replays of CUDA graphs: run it without graphs to see them")
    if any(kernel.name == "compiled graph" for kernel in profile.kernels):
        found.append("modules and operators within compiled graphs")
    if uncounted := {operator.name for operator in profile.operators if operator.name.startswith(UNCOUNTED)}:
        found.append(f"the operations of {', '.join(sorted(uncounted))}, so that the ceiling of products is too low")
    found.append("how many bytes the work needs, so that there is no ceiling of memory")
    silent: dict[str, list[str]] = {}
    for one in findings:
        if one.outcome == "abstained":
            silent.setdefault(one.reason, []).append(one.finding)
    return (*found, *(f"{', '.join(names)}: {reason}" for reason, names in silent.items()))
