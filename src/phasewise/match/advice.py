"""The one thing to do next, and why a base is unfit to be judged by. Nothing is run."""

from __future__ import annotations

from phasewise.records.judgement import WRONG, Judgement
from phasewise.records.validate import CaseValidation, Outcome
from phasewise.records.verdict import Reason, Status

# of the best possible time: more is not worth an hour
NEAR = 0.7
# and less is not told in figures
LITTLE = 0.01
# a call that takes less is bounded by what starts it, seconds
SHORT_S = 50e-6

AGAIN = {
    Reason.NEIGHBOUR: "other programs used this machine: judge again when it is quiet",
    Reason.THROTTLED: "the device slowed itself down: let it cool, and judge again",
    Reason.FEW_ROUNDS: "the interval is too wide to tell: judge again with --budget standard",
    Reason.OUT_OF_MEMORY: "give the base's module smaller sizes; --shapes would be judged beside these",
}
CHEATS = {
    Reason.WRONG_WHEN_TIMED: "compute each result from its own inputs, at every call",
    Reason.REMEMBERS: "compute each result anew in the step, and give it contiguous: what was seen before may not be cheaper, and a view is copied at delivery",
    Reason.STOPWATCH: "leave clocks and synchronisation alone",
    Reason.SKIPS_STEPS: "do the whole work in every call",
}
# guards of a base behind which others fail that are not to blame, and what to do; the first that fails is told alone
CAUSES = {
    "inputs-unchanged": "",
    "no-random-numbers": "",
    "repeated": "; a call may leave nothing behind that changes the next one: take such a state as an argument, and give the new one as a result",
}
OTHER_TOLERANCE = "choose another tier or other inputs, or declare what is enough by get_tolerance()"
NO_TOLERANCE = "no tolerance covers that: choose other inputs, or give results that no rounding decides, such as the numbers that integers stand for"


def explain_unfit(own: CaseValidation) -> str:
    """Why a base whose gate it did not pass can't be judged by, and what to do."""
    # what guards found may be why the results are off, and they say what to do
    failed = {guard.guard: guard.message for guard in own.guards if guard.outcome is Outcome.FAIL}
    for cause, cure in CAUSES.items():
        if cause in failed:
            return f"{cause}: {failed[cause]}{cure}"
    if own.failure is not None:
        return own.message
    if failed:
        return "; ".join(f"{name}: {message}" for name, message in failed.items())
    # integers that differ, or numbers that are finite in one precision alone
    beyond = any(error.outcome is Outcome.FAIL and error.worst is None for error in own.errors)
    return f"{own.message}; {NO_TOLERANCE if beyond else OTHER_TOLERANCE}"


def find_next_step(found: Judgement) -> str:
    """One sentence."""
    if found.status is Status.FAILED:
        return "mend the crash, and judge again"
    if found.status is Status.INVALID and found.reason == WRONG:
        return (
            f"find out first: {found.doubts[0]}" if found.doubts else "mend the result; speed is not looked at before"
        )
    if found.status is Status.INVALID:
        return CHEATS.get(found.reason, "do what the guard asks for; a result that only looks right is not timed")  # type: ignore[call-overload]
    if found.status is Status.INCONCLUSIVE:
        return AGAIN.get(found.reason, "judge again with --budget standard: more processes tell smaller differences")  # type: ignore[call-overload]
    return _advise_speed(found)


def _advise_speed(found: Judgement) -> str:
    share = found.share
    if share is None or found.best is None or found.candidate_s is None:
        return "profile the candidate"
    if share > 1:
        return "faster than this machine's measured rates allow for that work: look whether all of it has to be done"
    if share >= NEAR:
        return "stop here: little is left to gain"
    if found.candidate_s < SHORT_S:
        return "a call this short is mostly its start: do more work a call, or capture calls together"
    what = {"compute": "its products", "launch": "one launch"}.get(found.best.bound, "moving its bytes")
    part = f"{share:.0%}" if share >= LITTLE else f"under {LITTLE:.0%}"
    return f"{what} alone would take {part} of its time: profile what the rest is"
