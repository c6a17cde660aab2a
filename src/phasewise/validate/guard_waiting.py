"""Guards on work that isn't done when the step says so, and on a clock that was tampered with."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.bench.timing import CLOCK, read_clock
from phasewise.records.validate import Guard, guard
from phasewise.tensors import all_same_bits
from phasewise.validate.trial import Trial
from phasewise.validate.watched import Watched


def outputs_waited_for(trial: Trial, steps: Sequence[Watched]) -> Guard:
    """Outputs read in order on the current stream are what they are once the whole device and all threads are done.

    Until a buffer that is filled late is filled, it holds the result of the step before, on another batch.
    """
    name = "outputs-waited-for"
    changed = [step for step in steps if not all_same_bits(step.early, step.late)]
    if not changed:
        return guard(name, "")
    if not all(all_same_bits(step.late, step.again) for step in changed):
        # refused all the same: such a reading would hide work that is late, and a result that is stale
        return guard(
            name,
            "outputs differ from reading to reading of the same finished step: `outputs` does not repeat its bits "
            "(sums by atomics?), or a thread never ends",
        )
    where = "other streams or threads" if trial.case.device.type == "cuda" else "threads"
    return guard(name, f"outputs still change after the step: {where} are not waited for")


def clock_intact(trial: Trial) -> Guard:
    """Nobody replaced what time is measured with."""
    now = read_clock()
    replaced = [name for name, before in CLOCK.items() if before is not now[name]]
    return guard("clock-intact", f"the program replaced {', '.join(replaced)}; leave it alone" if replaced else "")
