"""The five questions of somebody who looks at a run for the first time, each answered in a sentence."""

from __future__ import annotations

from collections import Counter

from phasewise.records.analyse import CaseResult, NextStep, PeerRow, Row, TargetResult
from phasewise.records.promise import Kept
from phasewise.records.validate import CaseValidation, Outcome
from phasewise.records.verdict import Level, Status
from phasewise.report import claims
from phasewise.report import format as show
from phasewise.report.blocks import Definitions, Inline, Span, Tone, code
from phasewise.report.sections.promises import TONES
from phasewise.run import Run

# of a list of targets by what became of them
COUNTED = (
    ("reached", (Level.STRETCH, Level.TARGET, Level.MINIMUM)), ("undecided", (Level.UNDECIDED,)), ("missed", (Level.MISSED,)),
    ("disowned", (Level.DISOWNED,)), ("without a value", (Level.NONE,)),
)  # fmt: skip
# what a gate compares with where nothing stands in for it
REFERENCE = "reference"
# a promise that something measured answers
ANSWERED = (Kept.BEATEN, Kept.KEPT, Kept.UNDECIDED, Kept.BROKEN, Kept.DISOWNED)


def answer_questions(run: Run, case: CaseResult, row: Row | None, peer: PeerRow | None) -> Definitions:
    """Is it faster, than what, is it right, was the promise kept, what next."""
    return Definitions(
        (
            ("Is it faster?", _is_faster(case, row, peer)),
            ("Faster than what?", _than_what(case, peer)),
            ("Is it right?", _is_right(run[case.stack or ""].gate(case.case))),
            ("Was the promise kept?", _was_kept(run)),
            ("What next?", _what_next(run)),
        )
    )


def best_peer(case: CaseResult) -> PeerRow | None:
    """The fastest other way to the same result: of those that the end of the stack was held against, else of those that an earlier
    program of ours was."""
    found = [one for one in case.peers if one.ratio is not None and one.same_output]
    found = [one for one in found if one.variant == case.stack] or found
    return min(found, key=lambda one: one.ratio.estimate if one.ratio else 0.0, default=None)


def tell_ours(peer: PeerRow, case: CaseResult) -> str:
    """Which program of ours a peer was held against, where it is not the end of the stack."""
    return "" if peer.variant == case.stack else f"; held against {show.clean(peer.variant)}"


def earlier_gain(case: CaseResult) -> Row | None:
    """The last program of ours that is kept and was held against the baseline itself, where the end of the stack was not."""
    if case.stack_speedup is not None or case.stack_at_least:
        return None
    found = [row for row in case.rows if row.kept and row.verdict.over_baseline is not None and not row.verdict.chained]
    return next((row for row in reversed(found) if row.verdict.baseline_status is Status.FASTER), None)


def count_targets(targets: tuple[TargetResult, ...]) -> str:
    """How many targets were reached, are undecided, and so on; what is none is left out."""
    counts = Counter(one.level for one in targets)
    told = [(sum(counts[level] for level in levels), words) for words, levels in COUNTED]
    return ", ".join(f"{count} {words}" for count, words in told if count)


def _say(word: str, tone: Tone, *text: str | Span) -> Inline:
    """The answer in a word, then what it rests on."""
    return (Span(f"{word}:", strong=True, tone=tone), " ", *text)


def _is_faster(case: CaseResult, row: Row | None, peer: PeerRow | None) -> Inline:
    if row is None or row.time_s is None:
        return _say("Not measured", "warn", "the end of the stack of ", code(case.case), " was not timed.")
    takes = ("case ", code(case.case), f" takes {show.time(row.time_s.estimate)} a step")
    if case.stack_status is Status.BASELINE:
        return _say("Not yet", "warn", *takes, " in your own code: no phase has taken its place.")
    if case.stack_speedup is None and case.stack_at_least:
        return _say(
            "Yes", "good", *takes, f", at least {show.ratio(case.stack_at_least)} as fast as your code (the baseline)."
        )
    if (gained := earlier_gain(case)) is not None:
        told = f"; an earlier program, {show.clean(gained.variant)}, is {show.ratio_interval(gained.verdict.over_baseline)} as fast"
        return _say("Yes", "good", *takes, told, " as your code, the baseline (measured side by side).")
    if case.stack_speedup is None:
        slow = "; your code (the baseline) was not timed beside it"
        if peer is not None and peer.verdict.status is Status.SLOWER:
            earlier = (
                ""
                if peer.variant == case.stack
                else f". Held against the other way was an earlier program, {show.clean(peer.variant)}"
            )
            return _say("Yes, than the strongest other way", "good", *takes, f"{slow}{earlier}.")
        return _say("Not measured", "warn", *takes, f"{slow}.")
    words: dict[Status | None, tuple[str, Tone]] = {Status.FASTER: ("Yes", "good"), Status.SLOWER: ("No", "bad")}
    how = "product of measured ratios" if case.stack_chained else "measured side by side"
    told = f", {show.ratio_interval(case.stack_speedup)} as fast as your code, the baseline ({how}). {claims.no_claim(case)}"
    return _say(*words.get(case.stack_status, ("Not shown", "warn")), *takes, told.rstrip())


def _than_what(case: CaseResult, peer: PeerRow | None) -> Inline:
    own = case.stack_speedup is not None or bool(case.stack_at_least) or earlier_gain(case) is not None
    if peer is None:
        return (
            f"{'Than your own code only' if own else 'Than nothing yet'}: no other way to the same result was measured."
        )
    before = f"{'Than your own code, and ' if own else ''}{show.ratio_interval(peer.ratio)} as fast as "
    told = (f"{before}the strongest other way to the same result, ", code(peer.name), tell_ours(peer, case))
    return (*told, ", which is no claim." if peer.verdict.status is Status.INCONCLUSIVE else ".")


def _is_right(gate: CaseValidation | None) -> Inline:
    """What the gate said of the end of the stack."""
    if gate is None:
        return _say("Not checked", "warn", "no validation of this program is on record.")
    if gate.outcome is Outcome.FAIL:
        return _say("No", "bad", f"the gate refused it. {show.clean(gate.message)}")
    if gate.outcome is not Outcome.PASS:
        return _say("Not checked", "warn", show.clean(gate.message) or "the gate was skipped.")
    rest = () if gate.against == REFERENCE else (" on a sample, and of ", code(gate.against), " on the rest")
    worst = max((one.worst for one in gate.errors if one.worst is not None), default=None)
    error = f"; its largest error is {show.number(worst, 2)} of what is allowed" if worst is not None else ""
    passed = (
        [one for one in gate.guards if one.outcome is Outcome.PASS],
        [one for one in gate.checks if one.outcome is Outcome.PASS],
    )
    told = f"{error}; it passes {show.counted(len(passed[0]), 'guard')} and {show.counted(len(passed[1]), 'check')}."
    return _say("Yes", "good", "it gives the results of the float64 reference", *rest, told)


def _was_kept(run: Run) -> Inline:
    """Promises of the user's document, then the plan's own targets."""
    targets = run.analysis.targets if run.analysis else ()
    own = f" Of {show.counted(len(targets), 'target')} of the plan: {count_targets(targets)}." if targets else ""
    counts = Counter(one.outcome for one in (run.analysis.promises if run.analysis else ()) if one.outcome in ANSWERED)
    if not counts:
        return f"No document promised anything that was measured.{own}"
    kept, every = counts[Kept.BEATEN] + counts[Kept.KEPT], counts.total()
    told = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in ANSWERED if counts[outcome])
    if kept == every:
        word, tone = "Yes", TONES[Kept.KEPT]
    elif counts[Kept.BROKEN] + counts[Kept.DISOWNED] <= every / 2:
        word, tone = f"Partly, {kept} of {every}", TONES[Kept.UNDECIDED]
    elif kept:
        word, tone = f"Mostly not, {kept} of {every}", TONES[Kept.BROKEN]
    else:
        word, tone = "No", TONES[Kept.BROKEN]
    return _say(word, tone, f"of the measured promises of your document, {told}.{own}")


def _what_next(run: Run) -> Inline:
    step = next(iter(list_steps(run)), None)
    if step is None:
        return "No next step stands out."
    return (
        Span(step.advice, strong=True),
        f" That holds at most {show.time(step.seconds)} of a step in ",
        code(step.cases[0]),
        ".",
    )


def list_steps(run: Run) -> list[NextStep]:
    """Those that hold some time, the most first."""
    return [step for step in run.analysis.next_steps if step.seconds and step.cases] if run.analysis else []
