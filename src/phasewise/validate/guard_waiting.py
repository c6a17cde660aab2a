"""Guards on work that isn't done when the step says so, and on a clock that was tampered with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from phasewise.bench.timing import CLOCK, read_clock
from phasewise.records.validate import Guard, guard
from phasewise.tensors import all_same_bits
from phasewise.validate.trial import Trial

# a thread that the step has left behind gets this long to finish
JOIN_S = 1.0
# and a thread that waits for work all the time, this long to change an output
SETTLE_S = 0.05


def outputs_waited_for(trial: Trial, sleep: Callable[[float], None] = time.sleep) -> Guard:
    """Outputs read in order on the current stream are what they are once the whole device and all threads are done."""
    # another batch first, so that a buffer that is filled late holds another result until then
    trial.case.restore()
    trial.step(trial.batch(1))
    trial.case.restore()
    placed = trial.place(trial.batch(0))
    trial.case.synchronize()
    raw = trial.case.step(placed)
    if trial.case.program.sync is not None:
        trial.case.program.sync()
    early = trial.case.outputs(raw)
    left = [thread for thread in threading.enumerate() if thread.ident not in trial.threads]
    deadline = time.monotonic() + JOIN_S
    for thread in left:
        if thread is not threading.current_thread():
            # a worker of a pool never ends: it gets the time to settle
            thread.join(timeout=min(SETTLE_S, max(0.0, deadline - time.monotonic())))
    if left:
        sleep(SETTLE_S)
    trial.case.synchronize()
    late = trial.case.outputs(raw)
    if all_same_bits(early, late):
        return guard("outputs-waited-for", "")
    if not all_same_bits(late, trial.case.outputs(raw)):
        # refused all the same: such a reading would hide work that is late, and a result that is stale
        return guard(
            "outputs-waited-for",
            "outputs differ from reading to reading of the same finished step: `outputs` does not repeat its bits "
            "(sums by atomics?), or a thread never ends",
        )
    where = "other streams or threads" if trial.case.device.type == "cuda" else "threads"
    return guard("outputs-waited-for", f"outputs still change after the step: {where} are not waited for")


def clock_intact(trial: Trial) -> Guard:
    """Nobody replaced what time is measured with."""
    now = read_clock()
    replaced = [name for name, before in CLOCK.items() if before is not now[name]]
    return guard("clock-intact", f"the program replaced {', '.join(replaced)}; leave it alone" if replaced else "")
