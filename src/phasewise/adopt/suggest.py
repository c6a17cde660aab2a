"""The first phase of a workload: what a look at its module suggests. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from phasewise.look.command import Command
from phasewise.look.describe import list_found
from phasewise.look.play import look
from phasewise.match.side import Side, write_side
from phasewise.records.finding import FindingId

# findings that a switch of one line answers: its name, and its line in `build`
COMPILED = ("compiled", "call = torch.compile(module) if switches.compiled else module")
TF32 = ("tf32", 'torch.set_float32_matmul_precision("high" if switches.tf32 else "highest")')
ANSWERS = {
    FindingId.MATMUL_IN_FP32: TF32, FindingId.FUSIBLE_CHAIN: COMPILED, FindingId.SMALL_KERNELS: COMPILED,
    FindingId.LAUNCH_GAPS: COMPILED, FindingId.ALLOCATOR_CHURN: COMPILED,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One switch with its reason."""

    switch: str
    # in `build`
    line: str
    # a finding; "" where none was found that a line answers
    because: str


def suggest_phase(side: Side, progress: Callable[[str], None]) -> Suggestion:
    """The answer to the finding that holds most of a call; to compile it, where none has one."""
    command = Command(
        python=sys.executable, options=(), path="", module="phasewise.adopt.probe", arguments=(write_side(side),)
    )
    seen = look(command, step="call", progress=progress)
    because = next((one.finding for one in list_found(seen.findings) if one.finding in ANSWERS), "")
    switch, line = ANSWERS[FindingId(because)] if because else COMPILED
    return Suggestion(switch=switch, line=line, because=because)
