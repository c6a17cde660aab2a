from __future__ import annotations

import contextlib
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from export.plans import ROOT, make_plan, open_gate
from phasewise.export import export_variant
from phasewise.export.answers import About, Written
from phasewise.export.call import Flat
from phasewise.export.capture import capture
from phasewise.export.format import ExportedCase, describe_failure, export_format, launch_clean
from phasewise.export.formats import torch_export
from phasewise.export.formats.names import Names
from phasewise.export.manifest import write_manifest
from phasewise.model.workload import Unsupported
from phasewise.records.errors import UserError
from phasewise.records.export import ExportStatus
from phasewise.records.validate import Outcome
from phasewise.workers.arm import ArmProcesses
from phasewise.workers.failure import ProcessFailed

ABOUT = About(
    inputs=({"name": "x", "dtype": "float32", "shape": "3, 4"},),
    outputs=({"name": "output", "dtype": "float32", "shape": "3, 2"},),
    device="cpu", matmul_precision="highest", threads=1, versions={}, batches=1,
)  # fmt: skip


class BentEager:
    """Stands in for the eager worker, and writes an export whose weights are not those of the eager module."""

    def __init__(self, module: torch.nn.Module, x: torch.Tensor, bend: float) -> None:
        self.module, self.x, self.bend, self.blocks = module, x, bend, 0

    def singles(self, count: int) -> list[float]:
        self.blocks += 1
        return [1e-3] * count

    def block(self, steps: int, settle: int) -> dict[str, float]:
        self.blocks += 1
        return {"wall_s": 1e-3 * steps}

    def apply(self, function: str, kind: type[Written], *, format: str, folder: str) -> list[Written]:
        assert (function, format) == ("phasewise.export.eager:write_format", "torch-export")
        exported = capture(Flat(self.module, ("input",)), [(self.x,)])
        exported.state_dict["module.weight"].data[1, 2] += self.bend
        torch_export.write(exported, Names(("x",), ("output",), ("float32", "float32")), Path(folder))
        (Path(folder) / "infer.py").write_bytes((ROOT / "src/phasewise/export/scripts/infer.py").read_bytes())
        return [Written(model=torch_export.FILE)]


def export_bent(folder: Path, bend: float) -> tuple[object, BentEager]:
    x, module = torch.rand(3, 4), torch.nn.Linear(4, 2).requires_grad_(False)
    np.savez(folder / "inputs-0.npz", x=x.numpy())
    np.savez(folder / "outputs-0.npz", output=module(x).numpy())
    eager = BentEager(module, x, bend)
    case = ExportedCase(plan=make_plan("mlp"), name="mlp", root=ROOT, scratch=folder, about=ABOUT, eager=eager)
    return export_format(case, "torch-export", folder / "out"), eager


def test_an_export_with_other_weights_is_a_mismatch_and_is_not_timed(tmp_path: Path) -> None:
    result, eager = export_bent(tmp_path, bend=0.01)
    assert result.status is ExportStatus.MISMATCH
    assert "'output' of batch 0 differs from the eager module, by 0.00" in result.reason
    (error,) = result.errors
    assert error.outcome is Outcome.FAIL and error.where[1] == 1
    assert (result.eager_s, result.export_s, eager.blocks) == ((), (), 0)
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["status"] == "mismatch"


def test_the_same_export_with_the_right_weights_is_ok(tmp_path: Path) -> None:
    result, _ = export_bent(tmp_path, bend=0.0)
    assert (result.status, result.reason) == (ExportStatus.OK, "")
    assert len(result.export_s) == 3


def test_an_export_is_loaded_where_nothing_of_the_workload_is_and_its_operators_by_their_import(tmp_path: Path) -> None:
    plan = make_plan("mlp", "custom")
    record = export_variant(plan, open_gate("mlp", "custom"), root=ROOT, folder=tmp_path, machine="m", commit="c")
    assert [result.status for result in record.results] == [ExportStatus.OK] * 2
    for name, files in (("mlp", set()), ("custom", {"small_models.py"})):
        scratch = tmp_path / name
        (scratch / "inputs.npz").rename(scratch / "inputs-0.npz")
        case = ExportedCase(plan=plan, name=name, root=ROOT, scratch=scratch, about=ABOUT, eager=None)
        with contextlib.closing(ArmProcesses(launch_clean(case, scratch / "torch-export"))) as clean:
            clean.open()
            assert clean.files() == files


def test_files_that_the_script_refuses_are_a_failure_with_its_sentence(tmp_path: Path) -> None:
    (tmp_path / "infer.py").write_bytes((ROOT / "src/phasewise/export/scripts/infer.py").read_bytes())
    case = ExportedCase(plan=make_plan("mlp"), name="mlp", root=tmp_path, scratch=tmp_path, about=ABOUT, eager=None)
    clean = ArmProcesses(launch_clean(case, tmp_path))
    with contextlib.closing(clean), pytest.raises(ProcessFailed) as died:
        clean.open()
    wanted = (ExportStatus.FAILED, f"{tmp_path}: there is no manifest.json; copy the whole folder of the export")
    assert describe_failure(died.value.failure, ROOT) == wanted


def test_a_program_with_pickled_examples_is_refused_by_the_script(tmp_path: Path) -> None:
    from phasewise.export.reload import bench_export

    exported = capture(Flat(torch.nn.Linear(4, 2), ("input",)), [(torch.rand(3, 4),)])
    torch.export.save(exported, tmp_path / "model.pt2")
    (tmp_path / "infer.py").write_bytes((ROOT / "src/phasewise/export/scripts/infer.py").read_bytes())
    write_manifest(
        tmp_path,
        {**msgspec.to_builtins(ABOUT), "target": "torch-export", "model": "model.pt2", "operators": [], "imports": []},
    )
    with pytest.raises(UserError, match="holds a pickle"):
        bench_export(str(tmp_path), [], threads=1, source="", root=str(tmp_path))


def test_weights_that_only_a_pickle_could_hold_are_refused_at_writing(tmp_path: Path) -> None:
    class Tagged(torch.Tensor):
        pass

    exported = capture(Flat(torch.nn.Linear(4, 2), ("input",)), [(torch.rand(3, 4),)])
    exported.state_dict["module.weight"] = torch.rand(2, 4).as_subclass(Tagged)
    with pytest.raises(Unsupported, match=r"'module\.weight' is a Tagged, which"):
        torch_export.write(exported, Names(("x",), ("output",), ("float32", "float32")), tmp_path)
