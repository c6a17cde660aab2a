"""What a program that writes candidates is told: enough to go on, and nothing of what the judge gave the candidate.

A candidate sees batches whose results are known. It could hand them on in an error's text, in the name of a result or in the place of a wrong
element; so of all that only numbers of a few digits are told, and words that are not the candidate's.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from phasewise.match.side import parse_side
from phasewise.records.base import Interval, Record, Scalar
from phasewise.records.exit_code import ExitCode
from phasewise.records.judgement import SCHEMA, Judgement, Match
from phasewise.records.verdict import Reason, Status

PLACE = re.compile(r"\((?P<file>[^():/]+):(?P<line>\d{1,5})\)")
DIGITS = 2


class Summary(Record, frozen=True, kw_only=True):
    """The verdict on one shape."""

    status: Status
    reason: str
    shape: dict[str, Scalar]
    # how many times as fast it is, and what the ratio has to clear, of two digits
    ratio: Interval | None
    noise_limit: float | None
    # largest error in units of what is allowed, as a power of ten
    off_by: float | None
    # best possible time over the candidate's, of two digits
    share: float | None
    # where the candidate's own file raised an error
    place: str
    # about its weights, which it has before it sees a batch
    doubts: tuple[str, ...]


class Aggregate(Record, frozen=True, kw_only=True):
    """What `phasewise judge --agent` prints."""

    schema: int = SCHEMA
    exit_code: ExitCode
    isolated: str
    next_step: str
    summaries: tuple[Summary, ...]


def aggregate(found: Match) -> Aggregate:
    """The verdicts without what only the judge may know."""
    source = Path(parse_side(found.candidate).source)
    return Aggregate(
        exit_code=found.exit_code,
        isolated=found.isolated,
        next_step=found.next_step,
        summaries=tuple(_summarise(one, source) for one in found.judgements),
    )


def _summarise(found: Judgement, source: Path) -> Summary:
    ratio = found.ratio
    known = {*Reason, "wrong", "guard"}
    return Summary(
        status=found.status,
        reason=found.reason if found.reason in known else "",
        shape=found.shape,
        ratio=None
        if ratio is None
        else Interval(estimate=_round(ratio.estimate), low=_round(ratio.low), high=_round(ratio.high)),
        noise_limit=None if found.noise_limit is None else _round(found.noise_limit),
        off_by=None if not found.worst else 10.0 ** math.ceil(math.log10(found.worst)),
        share=None if found.share is None else _round(found.share),
        place=find_place(found.detail, source) if found.status is Status.FAILED else "",
        doubts=found.doubts,
    )


def find_place(text: str, source: Path) -> str:
    """File and line that `text` names, if they are of the candidate's file; "" otherwise."""
    for found in PLACE.finditer(text):
        if found["file"] == source.name and source.is_file():
            lines = len(source.read_text(errors="replace").splitlines())
            if 1 <= int(found["line"]) <= lines:
                return f"{source.name}:{int(found['line'])}"
    return ""


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
