"""Which studies are tested after a change of a file of this repository."""

from __future__ import annotations

from pathlib import Path

from changed import STUDIES, name_concerned, read_imports


def test_every_study_reaches_its_own_files_and_what_it_imports(repository: Path) -> None:
    imports = read_imports(repository)
    studies = {path.parent.name for path in (repository / STUDIES).glob("*/tests")}
    assert name_concerned([f"{STUDIES}bk_core/product/operators.py"], imports, studies) == {"bk_core", "resnet_bk"}
    assert name_concerned(["src/phasewise/model/workload.py"], imports, studies) == studies
    # a page is the business of those alone whose tests run commands of the whole package
    assert "bk_core" not in name_concerned(["src/phasewise/report/blocks.py"], imports, studies)
