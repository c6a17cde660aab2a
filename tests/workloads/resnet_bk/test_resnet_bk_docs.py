"""The page on the utilities runs as it stands, on a model from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from phasewise.workloads.resnet_bk.phases import workload


def test_the_code_of_the_utilities_page_runs(pytestconfig: pytest.Config) -> None:
    page = (pytestconfig.rootpath / "docs" / "workloads" / "resnet_bk" / "utilities.md").read_text()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3))
    batch = {"x": torch.rand(20, 6), "y": torch.arange(20) % 3}

    def loss_of(part: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(part["x"]), part["y"])

    names = {"torch": torch, "model": model, "batch": batch, "loss_of": loss_of, "device": torch.device("cpu")}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        exec(block, names)
    assert names["found"].size == 20
    torch.testing.assert_close(names["wide"](batch["x"]), model(batch["x"]))


def test_the_readme_names_every_requirement_case_and_phase() -> None:
    import phasewise.workloads.resnet_bk as package

    readme = (Path(package.__path__[0]) / "README.md").read_text()
    table = readme[readme.index("## Requirements") : readme.index("## How results")]
    for number in range(1, 21):
        assert re.search(rf"\b5\.{number}\b", table), number
    for name in workload.cases:
        assert f"`{name}`" in readme, name
    for check in workload.checks:
        assert Path(package.__path__[0], "checks.py").read_text().count(f"def {check.name.replace('-', '_')}(") == 1
