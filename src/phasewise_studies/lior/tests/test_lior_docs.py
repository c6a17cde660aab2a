"""The example of the documentation runs, the checklist names checks that exist, and the ladder has every phase."""

from __future__ import annotations

import re
from pathlib import Path

from phasewise.model.check import CORE_CHECKS
from phasewise_studies.lior import checks
from phasewise_studies.lior.phases import workload

STUDY = Path(checks.__file__).parent


def test_the_example_trains_three_windows(capsys) -> None:
    text = (STUDY / "notes/usage.md").read_text()
    exec(compile(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], "usage.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"]


def test_every_line_of_the_documents_checklist_names_a_check_or_a_section() -> None:
    text = (STUDY / "notes/results.md").read_text()
    table = text[text.index("## The validation checklist") : text.index("Beyond it:")]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) == 12
    planned = {check.name for check in workload.checks}
    for row in rows:
        named = set(re.findall(r"`([a-z-]+)`", row))
        assert named <= planned | set(CORE_CHECKS)
        assert named or "stage" in row


def test_every_phase_that_the_documents_items_name_exists() -> None:
    text = (STUDY / "notes/document.md").read_text()
    table = text[text.index("## The document's items") : text.index("`cudnn_benchmark`")]
    names = {phase.name for phase in workload.phases}
    told = {name for name in re.findall(r"`([a-z]+(?:-[a-z]+)*)`", table) if "-" in name or name == "compile"}
    assert told and told <= names


def test_the_ladder_has_a_row_for_every_phase_in_order() -> None:
    ladder = re.findall(r"^\| `([a-z-]+)` \|", (STUDY / "README.md").read_text(), re.MULTILINE)
    assert ladder == [phase.name for phase in workload.phases]
