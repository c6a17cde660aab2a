"""The file `promises.yaml` beside a workload: what is read, and a sentence for each mistake."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from phasewise import Case, Phase, Shape, Workload
from phasewise.model.promises import read_promises
from phasewise.records.errors import PlanError


@dataclass(frozen=True)
class Switches:
    fused: bool = False


WORKLOAD = Workload(
    summary="sums",
    switches=Switches,
    cases={"sum": Case(tiny=Shape(n=4))},
    phases=(Phase("fused", {"fused": True}, because="fusible-chain"),),
)


def read(folder: Path, line: str):
    path = folder / "promises.yaml"
    path.write_text(f"document: A plan\npromises:\n  - quote: twice as fast\n    lines: [3]\n{line}")
    return read_promises(path, WORKLOAD, ["whole"], None)


def test_each_promise_names_what_answers_it(tmp_path: Path) -> None:
    found = read(tmp_path, "    promised: [2, 2]\n    phase: fused\n")
    assert found is not None and found.document == "A plan"
    (promise,) = found.promises
    assert (promise.lines, promise.promised, promise.phase) == ((3,), (2.0, 2.0), "fused")


def test_without_the_file_nothing_is_promised(tmp_path: Path) -> None:
    assert read_promises(tmp_path / "promises.yaml", WORKLOAD, [], None) is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "answered by nothing"),
        ("    target: whole\n    phase: fused\n", "answered by target and phase"),
        ("    phase: gone\n", "phase 'gone' is not in the workload; choose among fused"),
        ("    target: gone\n", "target 'gone' is not in the workload; choose among whole"),
        ("    check: gone\n", "check 'gone' is not in the workload"),
        ("    risk: gone\n", "risk 'gone' is not in the workload; choose among none"),
        ("    promised: [3, 2]\n    phase: fused\n", "least first"),
        ("    promised: [2, 3]\n    why: no reason\n", "is for a target or a phase"),
        ("    promised: [.nan, 3]\n    phase: fused\n", "promises.yaml"),
        ("    promised: fast\n    phase: fused\n", "promises.yaml"),
        ("    wyh: a slip\n", "wyh"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(PlanError) as raised:
        read(tmp_path, line)
    text = str(raised.value)
    assert str(tmp_path / "promises.yaml") in text and told in text and "\n" not in text
