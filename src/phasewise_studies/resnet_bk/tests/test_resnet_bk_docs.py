"""The page on the utilities runs as it stands, on a model from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import torch
import yaml

from phasewise.environment import detect
from phasewise.model.configuration import parse_configuration
from phasewise.plan import plan_runs
from phasewise_studies.resnet_bk.phases import workload


def test_the_code_of_the_utilities_page_runs(pytestconfig: pytest.Config) -> None:
    page = (pytestconfig.rootpath / "src" / "phasewise_studies" / "resnet_bk" / "notes" / "utilities.md").read_text()
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


def test_the_pages_name_every_requirement_case_and_phase() -> None:
    import phasewise_studies.resnet_bk as package

    folder = Path(package.__path__[0])
    readme, results = ((folder / page).read_text() for page in ("README.md", "notes/results.md"))
    table = results[results.index("## Requirements") :]
    for number in range(1, 21):
        assert re.search(rf"\b5\.{number}\b", table), number
    for name in workload.cases:
        assert f"`{name}`" in readme, name
    ladder = re.findall(r"^\| `([\w-]+)` \|", readme[readme.index("### The ladder") :], re.MULTILINE)
    assert ladder == [phase.name for phase in workload.phases]
    for check in workload.checks:
        assert (folder / "checks/__init__.py").read_text().count(f"def {check.name.replace('-', '_')}(") == 1


@pytest.mark.parametrize("gpus", [2, 4])
def test_the_sparing_run_on_several_gpus_has_a_chain_of_its_own(pytestconfig: pytest.Config, gpus: int) -> None:
    root = pytestconfig.rootpath
    schema = yaml.safe_load((root / "workflow/schemas/config.schema.yaml").read_text())
    laid_over = yaml.safe_load((root / "workflow/ranks.yaml").read_text())
    machine = msgspec.structs.replace(detect("cpu"), device=f"h200x{gpus}", kind="cuda", gpus=gpus, capability=(9, 0))
    (run,) = plan_runs(parse_configuration({"size": "full", **laid_over}, schema, "ranks.yaml"), root, machine)
    ranks = {plan.phase: plan for plan in run.variants if plan.ranks > 1}
    # what asks for more GPUs than there are drops out, the others do not
    assert {name for name, plan in ranks.items() if plan.skip is None} == {
        name for name, plan in ranks.items() if plan.ranks <= gpus
    }
    parents = {name: plan.parent for name, plan in ranks.items()}
    assert parents["ddp-2"] == "02-fused-update" and parents["ranks-2-graph"] == "03-cuda-graph"
    assert [plan.variant for plan in run.variants][:4] == [
        "00-baseline",
        "01-at-once",
        "02-fused-update",
        "03-cuda-graph",
    ]
    assert all(
        check.cases == ("causal",) for plan in ranks.values() for check in plan.checks if check.name == "ranks-agree"
    )
