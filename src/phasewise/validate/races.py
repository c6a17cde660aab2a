"""What racecheck reports of shared memory: in whose kernel, and whether it can be a race of the program's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

# NVIDIA's libraries, which launch their own kernels only; told by who launched, since any kernel may be called "cudnn_..."
LIBRARY = re.compile(r"lib(cublas|cudnn|cufft|curand|cusolver|cusparse|cutensor|nccl)\w*\.so[.\d]*")
TRITON = re.compile(r"__triton_launcher\S*\.so")
# also replays captured graphs, of anybody's kernels
TORCH = re.compile(r"libtorch_cuda\.so")
# through which others launch
RUNTIME = re.compile(r"libcuda(rt)?\.so[.\d]*")
REPORT = re.compile(r"(?=Potential (?:RAW|WAR|WAW) hazard detected)")
KIND = re.compile(r"Potential (\w+) hazard detected at __shared__ (0x[0-9a-f]+)")
END = re.compile(r"^=+ *$", re.MULTILINE)
ACCESS = re.compile(r"(Read|Write) Thread \((\d+), *(\d+), *(\d+)\) at (.+)")
VALUES = re.compile(r"Current Value : (\d+), Incoming Value : (\d+)")
FRAME = re.compile(r"Host Frame:(.*)")
COUNTS = re.compile(r"RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)")
INSTRUCTION = re.compile(r"\+0x[0-9a-f]+")
PYTHON_LINE = re.compile(r" in (\S+\.py:\d+)$")
WARP = 32


@dataclass(frozen=True, kw_only=True)
class Access:
    """Of one thread, at an instruction: `kernel+0x1d20 in file:line`, the latter where the kernel has line numbers."""

    does: str
    thread: tuple[int, int, int]
    place: str


@dataclass(frozen=True, kw_only=True)
class Hazard:
    """One byte of shared memory that two threads reach in no fixed order.

    `launcher` is the file of the innermost host frame outside CUDA, or empty.
    """

    kind: str
    address_bytes: int
    accesses: tuple[Access, ...]
    values: tuple[int, ...]
    launcher: str

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(access.place for access in self.accesses)

    @property
    def kernel(self) -> str:
        return INSTRUCTION.split(self.places[0])[0] if self.accesses else "an unknown kernel"

    def __str__(self) -> str:
        who = " and ".join(f"{access.does} Thread {access.thread} at {access.place}" for access in self.accesses)
        launched = f", launched by {self.launcher}" if self.launcher else ""
        values = f", {self.values[1]} over {self.values[0]} in byte {self.address_bytes:#x}" if self.values else ""
        return f"{self.kind} in {self.kernel}{launched}: {who}{values}"


def read_hazards(output: str) -> tuple[Hazard, ...]:
    """All hazard reports (`--racecheck-report hazard`) in `output`, beside which the program's own lines may stand."""
    return tuple(_read(END.split(text, maxsplit=1)[0]) for text in REPORT.split(output)[1:])


def count_hazards(output: str) -> tuple[int, int] | None:
    """How many racecheck printed, and how many it found; None without a summary. The last is its own: the program ended before."""
    counts = COUNTS.findall(output)
    if not counts:
        return None
    printed, errors, warnings = map(int, counts[-1])
    return printed, errors + warnings


def sort_hazards(hazards: Sequence[Hazard]) -> tuple[tuple[Hazard, ...], tuple[str, ...]]:
    """Those that accuse the program, what tells most of each kernel first, and a sentence on each kernel whose hazards accuse nobody."""
    accusing: list[Hazard] = []
    excused: list[str] = []
    kernels: dict[str, list[Hazard]] = {}
    for hazard in _name_launchers(hazards):
        kernels.setdefault(hazard.kernel, []).append(hazard)
    for kernel, found in kernels.items():
        not_library = [hazard for hazard in found if not LIBRARY.fullmatch(hazard.launcher)]
        not_one_value = _find_other_values(found)
        if not not_library:
            launchers = sorted({hazard.launcher for hazard in found})
            excused.append(f"{len(found)} hazards inside {kernel}, a library's kernel ({', '.join(launchers)})")
        elif not not_one_value:
            lines = sorted({match.group(1) for hazard in found if (match := PYTHON_LINE.search(hazard.places[0]))})
            excused.append(
                f"{len(found)} hazards inside {kernel} at {', '.join(lines)}, where lanes of a warp that reduced one value, each half "
                "with its own rounding, write it by one instruction (triton-lang/triton#7264)"
            )
        else:
            # what keeps the kernel from the nearer excuse
            first = set(not_library if len(not_library) < len(not_one_value) else not_one_value)
            accusing += sorted(found, key=lambda hazard: hazard not in first)
    return tuple(accusing), tuple(excused)


def _read(text: str) -> Hazard:
    """A report that has another form has no launcher, and so accuses."""
    head, values = KIND.search(text), VALUES.search(text)
    accesses = tuple(
        Access(does=does, thread=(int(x), int(y), int(z)), place=place.strip())
        for does, x, y, z, place in ACCESS.findall(text)
    )
    is_whole = head is not None and len(accesses) == 2
    frames = [re.split(r" in |/", frame)[-1].strip() for frame in FRAME.findall(text)]
    return Hazard(
        kind=text.split(maxsplit=2)[1],
        address_bytes=int(head.group(2), 16) if head else 0,
        accesses=accesses,
        values=tuple(map(int, values.groups())) if values else (),
        launcher=next((frame for frame in frames if not RUNTIME.fullmatch(frame)), "") if is_whole else "",
    )


def _name_launchers(hazards: Sequence[Hazard]) -> list[Hazard]:
    """In a replayed graph a kernel has the launcher that it has outside, where it showed a hazard there too and has one launcher only."""
    outside: dict[str, set[str]] = {}
    for hazard in hazards:
        if not TORCH.fullmatch(hazard.launcher):
            outside.setdefault(hazard.kernel, set()).add(hazard.launcher)
    known = {kernel: launchers.pop() for kernel, launchers in outside.items() if len(launchers) == 1}
    return [
        replace(one, launcher=known.get(one.kernel, one.launcher)) if TORCH.fullmatch(one.launcher) else one
        for one in hazards
    ]


def _find_other_values(hazards: Sequence[Hazard]) -> list[Hazard]:
    """Those of a kernel that are not halves of Triton's lanes which hold one reduced value and differ in its rounding.

    Triton's reduction adds what the lane half a group away holds, then a quarter, and so on. Where the compiler fuses the product
    before it into the first addition, each half of the group rounds the product of the other half only: all lanes of a half
    agree, and the two in the middle are where racecheck sees another value. When the result takes another layout, all lanes write
    it to one place. Of one instruction of a warp one of the writes stands (CUDA programming guide, "SIMT architecture"), so a read
    behind a barrier gets one of the two values. A read that is not behind one is a RAW or WAR hazard: these, two instructions, two
    warps, and values that are no roundings of each other are no such case.
    """
    middles: dict[str, Counter[int]] = {}
    for hazard in filter(_is_half, hazards):
        middles.setdefault(hazard.places[0], Counter())[_find_middle(hazard)] += 1
    usual = {place: counts.most_common(1)[0][0] for place, counts in middles.items()}
    return [one for one in hazards if not _is_half(one) or _find_middle(one) != usual[one.places[0]]]


def _is_half(hazard: Hazard) -> bool:
    """Whether two neighbours of a warp write by one instruction what may be two roundings of a number."""
    if not TRITON.fullmatch(hazard.launcher):
        return False
    first, second = (access.thread for access in hazard.accesses)
    return (
        hazard.kind == "WAW"
        and len(set(hazard.places)) == 1
        and PYTHON_LINE.search(hazard.places[0]) is not None
        and first[1:] == second[1:] == (0, 0)
        and abs(first[0] - second[0]) == 1
        and first[0] // WARP == second[0] // WARP
        and _is_rounding(hazard)
    )


def _find_middle(hazard: Hazard) -> int:
    """Where in its group a pair of neighbours is: the same for all groups of one size, as for 0b0111 and 0b1000, 0b10111 and 0b11000."""
    first, second = (access.thread[0] for access in hazard.accesses)
    return first ^ second


def _is_rounding(hazard: Hazard) -> bool:
    """Whether a byte differs as it may between two roundings of a number of 4 or 8 bytes: a high one by what is carried at most."""
    if len(hazard.values) != 2:
        return False
    current, incoming = hazard.values
    return hazard.address_bytes % 4 < 2 or abs(current - incoming) in (1, 255)
