"""Guards on repetition: the state comes back, the same work gives the same result, early and late, and nobody draws."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from phasewise.records.validate import Guard, guard
from phasewise.tensors import all_same_bits, difference
from phasewise.validate.trial import Trial, audit
from phasewise.validate.watched import Watched

# more steps than all guards before have made together, as far as they fit in this time
MORE_STEPS = 24
LATER_S = 0.5


def state_restored(trial: Trial) -> Guard:
    """`load` brings back the state that every timed block starts from."""
    name = "state-restored"
    program = trial.case.program
    if program.state is None:
        return guard(name, "")
    if program.load is None:
        moved = not all_same_bits(trial.first.initial, trial.first.state or {})
        return guard(name, "a step moves the state and the program has no `load`; give it one" if moved else "")
    trial.case.restore()
    now = trial.case.state()
    for key, before in trial.case.initial.items():
        if key.startswith("grad/"):
            # the next step computes it anew
            continue
        if key not in now:
            return guard(name, f"state {key!r} is gone after `load`")
        if not difference(now[key], before, rtol=trial.allowance.rtol, atol=trial.allowance.atol).within:
            return guard(name, f"state {key!r} is not what `load` was given; copy all of it back")
    return guard(name, "")


def note_difference(trial: Trial, step: Watched) -> str:
    """How the step's result differs from that of the first time; "" where it does not."""
    return trial.unlike_first(audit(trial.case, trial.batch(step.index), step.late), step.index)


def repeated(trial: Trial, problems: Sequence[str]) -> Guard:
    """The same batches from the same state give the same results as the first time."""
    problem = next(filter(None, problems), "")
    return guard("repeated", problem and f"{problem}, with the same batches from the same state")


def note_draws(trial: Trial, step: Watched) -> tuple[str, ...]:
    """Generators of random numbers that moved in the step."""
    return step.drew


def no_random_numbers(trial: Trial, draws: Sequence[tuple[str, ...]]) -> Guard:
    """A step draws no random numbers: samplers take theirs from `make_inputs`."""
    # the first step may compile, which draws
    drew = draws[-1]
    return guard(
        "no-random-numbers", f"a step drew from {', '.join(drew)}; take random numbers from make_inputs" if drew else ""
    )


def later_steps(trial: Trial) -> Guard:
    """Results are still right after a number of steps that the program can't know."""
    fewest = len(trial.pristine)
    plan = trial.case.plan
    # a sequence of its own for each case, so that no step count is safe
    extra = random.Random(f"{plan.seed} {plan.variant} {trial.case.planned.case}").randint(1, fewest)
    end, count = time.monotonic() + LATER_S, 0
    while count < fewest + extra or (count < MORE_STEPS + extra and time.monotonic() < end):
        raw = trial.case.step(trial.place(trial.batch(count)))
        trial.case.synchronize()
        trial.case.outputs(raw)
        count += 1
    trial.case.restore()
    problem = ""
    for index in range(trial.steps):
        problem = problem or trial.unlike_first(trial.step(trial.batch(index)), index)
    return guard("later-steps", problem and f"after {count} more steps, {problem}")
