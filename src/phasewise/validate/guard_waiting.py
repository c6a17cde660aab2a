"""Guards on work that isn't done when the step says so, and on a clock that was tampered with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phasewise.bench.timing import CLOCK, read_clock
from phasewise.records.validate import Guard, guard
from phasewise.tensors import all_same_bits
from phasewise.validate.trial import Trial
from phasewise.validate.watched import Watched


@dataclass(frozen=True, kw_only=True)
class Readings:
    """How often outputs of one finished step differed."""

    # those read in order on the current stream, from those read once all is done
    changed: bool
    # those, from another reading
    unsettled: bool


def note_readings(trial: Trial, step: Watched) -> Readings:
    """The step's three readings, compared."""
    changed = not all_same_bits(step.early, step.late)
    return Readings(changed=changed, unsettled=changed and not all_same_bits(step.late, step.again))


def outputs_waited_for(trial: Trial, readings: Sequence[Readings]) -> Guard:
    """Outputs read in order on the current stream are what they are once the whole device and all threads are done.

    Until a buffer that is filled late is filled, it holds the result of the step before, on another batch.
    """
    name = "outputs-waited-for"
    if not any(one.changed for one in readings):
        return guard(name, "")
    if any(one.unsettled for one in readings):
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
