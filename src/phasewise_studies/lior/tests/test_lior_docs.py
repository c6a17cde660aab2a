"""The example of the documentation runs, and the checklist names checks that exist."""

from __future__ import annotations

import re
from pathlib import Path

from phasewise.model.check import CORE_CHECKS
from phasewise_studies.lior import checks
from phasewise_studies.lior.phases import workload

README = Path(checks.__file__).with_name("README.md")


def test_the_example_trains_three_windows(repository, capsys) -> None:
    text = (repository / "src/phasewise_studies/lior/notes/README.md").read_text()
    exec(compile(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], "src/phasewise_studies/lior/notes", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"]


def test_every_line_of_the_documents_checklist_names_a_check_or_a_section() -> None:
    text = README.read_text()
    table = text[text.index("## The validation checklist") : text.index("Beyond it:")]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) == 12
    planned = {check.name for check in workload.checks}
    for row in rows:
        named = set(re.findall(r"`([a-z-]+)`", row))
        assert named <= planned | set(CORE_CHECKS)
        assert named or "stage" in row


def test_every_phase_that_the_readme_names_exists() -> None:
    text = README.read_text()
    table = text[text.index("## The document's items") : text.index("`cudnn_benchmark`")]
    names = {phase.name for phase in workload.phases}
    told = {name for name in re.findall(r"`([a-z]+(?:-[a-z]+)*)`", table) if "-" in name or name == "compile"}
    assert told and told <= names
