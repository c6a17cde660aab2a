"""The notebook's twelve cells run in order, and say what the text around them says."""

from __future__ import annotations

import re

import nbformat
import pytest


@pytest.fixture
def notebook(repository):
    return nbformat.read(repository / "notebooks" / "spectral_node.ipynb", as_version=4)


def test_it_has_the_twelve_cells_of_the_blueprint_and_no_stored_output(notebook) -> None:
    titles = [re.match(r"## (\d+)\.", cell.source) for cell in notebook.cells if cell.cell_type == "markdown"]
    assert [int(title[1]) for title in titles if title] == list(range(1, 13))
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_its_first_code_installs_what_is_missing_and_nothing_else(notebook, monkeypatch) -> None:
    code = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
    ran: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda command, check: ran.append(command))
    exec(compile(code, "notebook", "exec"), {})
    assert ran == []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="restart the runtime"):
        exec(compile(code, "notebook", "exec"), {})
    assert ran[0][1:4] == ["-m", "pip", "install"]


def test_its_networks_have_the_size_of_their_case(notebook) -> None:
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert "draw_metric(widths" in code and "widths=widths" in code and "(16, 32)" not in code


def test_its_cells_run_in_order(notebook, capsys) -> None:
    names: dict = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            exec(compile(cell.source, "notebook", "exec"), names)
    assert names["errors"]["float64"] < 1e-5 < names["errors"]["float32"] < names["errors"]["bfloat16 autocast"]
    assert names["gap"] < 1e-5
    assert names["losses"][-1] < names["losses"][0]
    assert "INT8" in capsys.readouterr().out
