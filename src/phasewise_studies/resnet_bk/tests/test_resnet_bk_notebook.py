"""The notebook's cells, one after the other in one name space, as a kernel would run them."""

from __future__ import annotations

import json

import pytest

from phasewise.model import data


@pytest.fixture(scope="module")
def cells(request: pytest.FixtureRequest) -> list[dict]:
    notebook = request.config.rootpath / "notebooks" / "resnet_bk.ipynb"
    return json.loads(notebook.read_text())["cells"]


def test_it_has_the_seven_sections(cells: list[dict]) -> None:
    headings = ["".join(cell["source"]).splitlines()[0] for cell in cells if cell["cell_type"] == "markdown"]
    assert [heading[3:4] for heading in headings[1:]] == list("1234567")


def test_every_cell_runs_and_its_claims_hold(cells: list[dict], capsys: pytest.CaptureFixture[str]) -> None:
    folder = data.data_folder()
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        for index, cell in enumerate(cells):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"cell {index}", "exec"), names)
    finally:
        data.use_data_folder(folder)
    printed = capsys.readouterr().out
    assert "largest error of 100 samples" in printed and "bits per byte" in printed
