from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest

from export.plans import ROOT, make_plan, open_gate
from phasewise.export import export_variant
from phasewise.export.scripts import infer
from phasewise.records.export import Export, ExportStatus
from phasewise.records.validate import Outcome
from phasewise.store import decode, encode


def run_export(folder: Path, *cases: str, exporters: tuple[str, ...] = ("torch-export",), **changes: object) -> Export:
    plan = make_plan(*cases, exporters=exporters, **changes)
    return export_variant(plan, open_gate(*cases), root=ROOT, folder=folder, machine="m", commit="c")


def run_script(folder: Path, inputs: Path, outputs: Path) -> subprocess.CompletedProcess[str]:
    """As a stranger would: a copy of the folder elsewhere, and no environment of ours."""
    command = [sys.executable, "-I", str(folder / "infer.py"), str(inputs), str(outputs)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


# a compiler runs for a minute for AOTInductor
FORMATS = [
    pytest.param(("torch-export", "onnx"), id="two"),
    pytest.param(("torch-export", "onnx", "aotinductor"), id="three", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=FORMATS)
def mlp(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Export]:
    """The formats of the parameter, and one that is not installed."""
    folder = tmp_path_factory.mktemp("mlp")
    return folder, run_export(folder, "mlp", exporters=(*request.param, "tensorrt"))


def test_a_module_is_exported_compared_and_timed_in_interleaved_rounds(mlp: tuple[Path, Export]) -> None:
    _, record = mlp
    *written, skipped = record.results
    assert {result.status for result in written} == {ExportStatus.OK} and skipped.status is ExportStatus.SKIPPED
    for result in written:
        # two fresh batches besides the captured one, three outputs each
        assert [(error.step, error.name) for error in result.errors] == [
            (step, name) for step in range(3) for name in ("out", "parts_0", "parts_1")
        ]
        assert all(error.outcome is Outcome.PASS and error.worst <= 1 for error in result.errors)
        assert len(result.eager_s) == len(result.export_s) == 3
        assert all(seconds > 0 for seconds in result.eager_s + result.export_s)
    assert all(result.seconds > 0 for result in record.results)
    assert record.skipped == ""
    assert decode(encode(record), Export, "record") == record


def test_a_format_that_is_not_installed_is_skipped_with_its_cure(mlp: tuple[Path, Export]) -> None:
    folder, record = mlp
    assert record.results[-1].reason == "needs an NVIDIA GPU"
    assert not (folder / "mlp" / "tensorrt").exists()


def test_the_signature_names_inputs_and_outputs_in_the_order_of_the_placed_batch(mlp: tuple[Path, Export]) -> None:
    _, record = mlp
    assert record.signature == {
        "mlp/inputs/y": "float32[4, 8]",
        "mlp/inputs/x": "float32[4, 8]",
        "mlp/outputs/out": "float32[4, 4]",
        "mlp/outputs/parts_0": "float32[]",
        "mlp/outputs/parts_1": "float32[4, 8]",
    }
    assert record.versions["torch"] and record.versions["onnxruntime"]


def test_the_manifest_holds_the_hashes_the_tier_and_the_errors_found(mlp: tuple[Path, Export]) -> None:
    folder, record = mlp
    for result in record.results[:-1]:
        target = folder / "mlp" / result.format
        manifest = json.loads((target / "manifest.json").read_text())
        assert manifest["status"] == "ok"
        assert (manifest["tier"], manifest["allowance"]) == ("moderate", {"rtol": 1e-4, "atol": 1e-5})
        assert len(manifest["errors"]) == len(result.errors)
        assert {file["path"] for file in manifest["files"]} == {manifest["model"], "infer.py"}
        for file in manifest["files"]:
            assert hashlib.sha256((target / file["path"]).read_bytes()).hexdigest() == file["sha256"]
        assert {Path(file.path).name: file.sha256 for file in result.files} == {
            file["path"]: file["sha256"] for file in manifest["files"]
        }


def test_the_script_runs_alone_and_writes_the_outputs_of_the_module(mlp: tuple[Path, Export], tmp_path: Path) -> None:
    folder, record = mlp
    for result in record.results[:-1]:
        elsewhere, file = tmp_path / result.format, tmp_path / f"{result.format}.npz"
        shutil.copytree(folder / "mlp" / result.format, elsewhere)
        done = run_script(elsewhere, folder / "mlp" / "inputs.npz", file)
        assert done.returncode == 0, done.stderr
        assert "out: float32[4, 4]" in done.stdout
        with np.load(file) as found, np.load(folder / "mlp" / "outputs.npz") as wanted:
            assert set(found) == set(wanted) == {"out", "parts_0", "parts_1"}
            for name in wanted:
                np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6)
        assert "phasewise" not in (elsewhere / "infer.py").read_text()


def test_an_onnx_model_runs_where_there_is_no_torch(mlp: tuple[Path, Export], tmp_path: Path) -> None:
    folder, _ = mlp
    words = [str(folder / "mlp" / "onnx" / "infer.py"), str(folder / "mlp" / "inputs.npz"), str(tmp_path / "found.npz")]
    code = f"import runpy, sys; sys.modules['torch'] = None; sys.argv = {words}; runpy.run_path({words[0]!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0 and "out: float32[4, 4]" in done.stdout, done.stderr


def test_the_script_refuses_a_model_whose_hash_differs(mlp: tuple[Path, Export], tmp_path: Path) -> None:
    folder, _ = mlp
    shutil.copytree(folder / "mlp" / "onnx", tmp_path / "bent")
    with (tmp_path / "bent" / "model.onnx").open("ab") as file:
        file.write(b"x")
    done = run_script(tmp_path / "bent", folder / "mlp" / "inputs.npz", tmp_path / "found.npz")
    assert done.returncode == 2
    assert "SHA-256 differs" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": None}, "there is no array 'x' among y, k; add it"),
        ({"x": np.zeros((4, 8))}, "'x' is float64, the export takes float32; cast it"),
        ({"x": np.zeros((7, 8), np.float32)}, "'x' is [7, 8], the export takes [4, 8]"),
        ({"x": np.zeros(4, np.float32)}, "'x' is [4], the export takes [4, 8]"),
        ({"y": np.zeros((5, 3), np.float32)}, "'y' is [5, 3], the export takes [*, 2]"),
    ],
)
def test_the_script_refuses_what_the_model_was_not_exported_for(
    changes: dict[str, np.ndarray | None], words: str, tmp_path: Path
) -> None:
    kinds = {"x": ("float32", "4, 8"), "y": ("float32", "*, 2"), "k": ("int64", "")}
    manifest = {"inputs": [{"name": n, "dtype": dtype, "shape": shape} for n, (dtype, shape) in kinds.items()]}
    right = {"y": np.zeros((5, 2), np.float32), "k": np.array(3), "x": np.zeros((4, 8), np.float32)}
    path = tmp_path / "inputs.npz"
    np.savez(path, **right)
    assert list(infer.read_inputs(path, manifest)) == ["x", "y", "k"]
    np.savez(path, **{name: array for name, array in (right | changes).items() if array is not None})
    with pytest.raises(infer.Refused) as refused:
        infer.read_inputs(path, manifest)
    assert str(refused.value).startswith(f"{path}: ") and words in str(refused.value)
    with pytest.raises(infer.Refused, match=r"absent\.npz: there is no such file"):
        infer.read_inputs(tmp_path / "absent.npz", manifest)
    path.write_text("no archive")
    with pytest.raises(infer.Refused, match=r"it is no \.npz of plain arrays"):
        infer.read_inputs(path, manifest)


def test_a_refusal_is_one_sentence_and_exit_code_2(mlp: tuple[Path, Export], tmp_path: Path) -> None:
    folder, record = mlp
    np.savez(tmp_path / "inputs.npz", x=np.zeros((7, 8), np.float32), y=np.zeros((4, 8), np.float32))
    for result in record.results[:-1]:
        done = run_script(folder / "mlp" / result.format, tmp_path / "inputs.npz", tmp_path / "found.npz")
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.count("\n") == 1 and "'x' is [7, 8], the export takes [4, 8]" in done.stderr
    assert not (tmp_path / "found.npz").exists()


def test_the_saved_program_holds_no_pickle(mlp: tuple[Path, Export]) -> None:
    folder, _ = mlp
    with zipfile.ZipFile(folder / "mlp" / "torch-export" / "model.pt2") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    samples = [content for name, content in contents.items() if "sample_inputs" in name]
    assert all(content == b"" for content in samples)
    # protocol 2 and later start a pickle with this byte; torch.save writes a zip archive around one
    assert not [name for name, content in contents.items() if content[:1] == b"\x80" or content[:2] == b"PK"]


def test_modules_that_a_target_cannot_hold_are_unsupported_with_the_reason(tmp_path: Path) -> None:
    record = run_export(tmp_path, "custom", "complex", "branching", exporters=("onnx", "torch-export"))
    found = {(result.case, result.format): result for result in record.results}
    custom = found["custom", "onnx"]
    assert custom.status is ExportStatus.UNSUPPORTED
    assert "phasewise_test::twice" in custom.reason
    assert found["complex", "onnx"].status is ExportStatus.UNSUPPORTED
    assert "complex64" in found["complex", "onnx"].reason
    for target in ("onnx", "torch-export"):
        branching = found["branching", target]
        assert branching.status is ExportStatus.UNSUPPORTED
        assert branching.reason.startswith("torch.export can't capture the module: ")
        assert "\n" not in branching.reason
    for result in record.results:
        if result.status is ExportStatus.UNSUPPORTED:
            assert result.files == () and not (tmp_path / result.case / result.format).exists()
    # a custom operator is no hindrance to torch.export, whose script then has to import the one that registers it
    assert found["custom", "torch-export"].status is ExportStatus.OK
    assert "phasewise_test::twice" in found["custom", "torch-export"].reason
    manifest = json.loads((tmp_path / "custom" / "torch-export" / "manifest.json").read_text())
    assert manifest["imports"] == ["small_models"]
    assert found["complex", "torch-export"].status is ExportStatus.OK


def test_forces_and_complex_insides_are_exported(tmp_path: Path) -> None:
    record = run_export(tmp_path, "force", "spectral", exporters=("onnx",))
    assert [(result.status, result.reason) for result in record.results] == [(ExportStatus.OK, "")] * 2


def test_sizes_that_differ_between_batches_stay_open(tmp_path: Path) -> None:
    record = run_export(tmp_path, "growing", exporters=("torch-export", "onnx"))
    assert [(result.status, result.reason) for result in record.results] == [(ExportStatus.OK, "")] * 2
    assert record.signature["growing/inputs/x"] == "float32[*, 8]"


def test_programs_that_cannot_be_built_cost_their_own_case_only(tmp_path: Path) -> None:
    record = run_export(tmp_path, "crash", "refused", "none", "mlp")
    found = {result.case: result for result in record.results}
    assert found["crash"].status is ExportStatus.FAILED
    assert found["crash"].reason.startswith("killed by SIGABRT")
    assert (found["refused"].status, found["refused"].reason) == (ExportStatus.UNSUPPORTED, "no such kernel here")
    assert (found["none"].status, found["none"].reason) == (ExportStatus.SKIPPED, "the program has no module")
    assert found["mlp"].status is ExportStatus.OK
    assert record.skipped == ""


def test_a_cap_on_memory_is_not_meant_for_what_writes_exports(tmp_path: Path) -> None:
    plan = make_plan("mlp")
    capped = tuple(msgspec.structs.replace(case, memory_limit_bytes=1 << 20) for case in plan.cases)
    record = run_export(tmp_path, "mlp", cases=capped)
    assert [(result.status, result.reason) for result in record.results] == [(ExportStatus.OK, "")]


def test_a_format_that_takes_the_worker_down_costs_only_itself(tmp_path: Path) -> None:
    record = run_export(tmp_path, "trap", exporters=("torch-export", "tensorrt", "onnx"))
    statuses = [ExportStatus.FAILED, ExportStatus.SKIPPED, ExportStatus.FAILED]
    assert [result.status for result in record.results] == statuses
    assert all(result.reason.startswith("killed by SIGABRT") for result in record.results[::2])
    assert record.signature["trap/inputs/x"] == "float32[4, 8]"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"skip": "needs an NVIDIA GPU"}, "needs an NVIDIA GPU"),
        ({"untimed": "kernels fall back here"}, "kernels fall back here"),
        ({"exporters": ()}, "no export is planned for this variant"),
        ({"ranks": 4}, "4 processes make one step; only a program of one process is exported"),
    ],
)
def test_a_variant_that_is_not_exported_says_why(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    record = run_export(tmp_path, "mlp", **changes)
    assert (record.skipped, record.results) == (reason, ())
    assert list(tmp_path.iterdir()) == []


def test_a_red_gate_or_none_keeps_the_case_out(tmp_path: Path) -> None:
    plan = make_plan("mlp", exporters=("torch-export", "onnx"))
    gate = open_gate("mlp", outcome=Outcome.FAIL, message="out is off by 3")
    red = export_variant(plan, gate, root=ROOT, folder=tmp_path, machine="m", commit="c")
    assert red.skipped == "skipped because validation ended in fail: out is off by 3"
    assert [result.status for result in red.results] == [ExportStatus.SKIPPED] * 2
    absent = export_variant(plan, None, root=ROOT, folder=tmp_path, machine="m", commit="c")
    assert absent.skipped == "skipped because it has not been validated"
