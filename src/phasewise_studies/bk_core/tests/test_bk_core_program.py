"""The workload's programs: every case and form against the reference, its checks, its exports and the tuner's file."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path

import pytest
import torch

from phasewise import Shape
from phasewise.model.program import CheckContext
from phasewise_studies.bk_core import checks, program, reference
from phasewise_studies.bk_core.kernels import tuning
from phasewise_studies.bk_core.kernels.launch import Launch
from phasewise_studies.bk_core.phases import workload
from phasewise_studies.bk_core.product import portable
from phasewise_studies.bk_core.switches import Switches
from phasewise_studies.bk_core.tests.operands import draw_operands, relative_error

CPU = torch.device("cpu")
# a case without a tiny size is tried at this one
TINY = {
    name: case.tiny or Shape(batch=8, length=63, batched=case.full.batched)
    for name, case in workload.cases.items()
    if name != "documented-long"
}
FORMS = [Switches(), Switches(core="mixed"), Switches(core="scan"), Switches(core="fused", analytic=True),
         Switches(core="fused", analytic=True, tuned=True, graph=True), Switches(core="extension", analytic=True)]  # fmt: skip


def run(built, batch):
    raw = built.step({name: part.float() for name, part in batch.items()})
    return built.outputs(raw) if built.outputs else raw


@pytest.mark.filterwarnings("ignore:bk_core's CUDA extension")
@pytest.mark.parametrize("case", TINY)
def test_every_form_gives_what_the_reference_gives(case: str) -> None:
    shape = TINY[case]
    batch = program.make_inputs(case, shape, 5)
    plain = program.reference(batch, case, shape)
    exact = plain.outputs(plain.step(batch))
    for switches in FORMS:
        found = run(program.build(switches, batch, case, shape, CPU), batch)
        assert found.keys() == exact.keys()
        for name, whole in exact.items():
            assert found[name].shape == whole.shape
            assert ((found[name] - whole).abs().max() / whole.abs().max()).item() < 2e-6, switches


@pytest.mark.parametrize("case", TINY)
def test_a_sample_of_the_reference_is_those_rows_of_it(case: str) -> None:
    shape = TINY[case]
    batch = program.make_inputs(case, shape, 6)
    rows = torch.tensor([0, shape.batch - 1])
    whole = program.reference(batch, case, shape)
    part = program.reference(batch, case, shape, items=rows)
    everything = whole.outputs(whole.step(batch))
    for name, values in part.outputs(part.step(batch)).items():
        torch.testing.assert_close(values, everything[name][rows])


@pytest.mark.parametrize(
    ("case", "size"),
    [("forward", 12), ("causal", 12), ("forward-batched", 20), ("backward-a", 16), ("backward-abc", 32)],
)
def test_the_declared_bytes_are_those_of_the_specification(case: str, size: int) -> None:
    full = workload.cases[case].full
    declared = program.work(case, full)
    # couplings have one element less in a row
    assert declared.bytes / declared.items == pytest.approx(size, rel=2e-3)


def make_context(case: str, switches: Switches) -> CheckContext:
    shape = TINY[case]
    batch = program.make_inputs(case, shape, 1)
    return CheckContext(
        build=lambda **changes: program.build(dataclasses.replace(switches, **changes), batch, case, shape, CPU),
        reference=lambda: program.reference(batch, case, shape), run=run,
        inputs=lambda seed: program.make_inputs(case, shape, seed), switches=switches, case=case, shape=shape, device=CPU,
        rtol=2e-6, atol=2e-7,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "case"),
    [("bounded", "forward-batched"), ("bounded", "causal"), ("dense_inverse", "causal"), ("dense_inverse", "forward"),
     ("odd_lengths", "causal"), ("odd_lengths", "documented"), ("hundred_inputs", "forward"),
     ("blind_to_the_future", "causal"), ("true_gradient", "backward-a"), ("true_gradient", "backward-abc")],
)  # fmt: skip
def test_the_checks_pass_on_the_plain_form(name: str, case: str) -> None:
    checked = getattr(checks, name)(make_context(case, Switches()))
    assert checked.passed, checked.message


def test_the_document_s_own_form_fails_its_own_criterion() -> None:
    assert not checks.hundred_inputs(make_context("forward", Switches(core="textbook"))).passed


@pytest.mark.parametrize(
    ("name", "case", "broken"),
    [("blind_to_the_future", "causal", lambda a, b, c, z: reference.diagonal_ratio(a, b, c, z)),
     ("dense_inverse", "forward", lambda a, b, c, z: reference.diagonal_causal(a, b, c, z)),
     ("bounded", "forward", lambda a, b, c, z: 2 * reference.diagonal_ratio(a, b, c, z))],
)  # fmt: skip
def test_the_checks_catch_what_they_are_for(name: str, case: str, broken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_choose_core", lambda *_: (broken, ()))
    assert not getattr(checks, name)(make_context(case, Switches())).passed


@pytest.mark.parametrize("causal", [False, True])
def test_the_portable_form_agrees_and_holds_no_complex_number(causal: bool) -> None:
    operands = [part.float() for part in draw_operands(3, 100)]
    module = portable.PortableDiagonal(0.2 + 0.6j, causal=causal)
    form = reference.diagonal_causal if causal else reference.diagonal_ratio
    exact = form(*(part.double() for part in operands), 0.2 + 0.6j)
    assert relative_error(torch.view_as_complex(module(*operands)), exact) < 4e-6
    exported = torch.export.export(module, tuple(operands))
    values = (node.meta.get("val") for node in exported.graph.nodes)
    assert not any(value.is_complex() for value in values if isinstance(value, torch.Tensor))


@pytest.mark.slow
def test_the_portable_form_runs_ahead_of_time_compiled_and_in_onnx_runtime(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime (pip install onnx onnxscript onnxruntime)")
    operands = tuple(part.float() for part in draw_operands(2, 31))
    module = portable.PortableDiagonal(1j)
    exported = torch.export.export(module, operands)
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "m.pt2"))
    torch.testing.assert_close(torch._inductor.aoti_load_package(package)(*operands), module(*operands))
    torch.onnx.export(exported, f=str(tmp_path / "m.onnx"), dynamo=True, verbose=False, input_names=["a", "b", "c"])
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    found = session.run(None, {name: part.numpy() for name, part in zip("abc", operands, strict=True)})[0]
    torch.testing.assert_close(torch.from_numpy(found), module(*operands))


def test_the_tuner_keeps_what_was_fastest_and_reads_no_other_gpu_s_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHASEWISE_BK_CACHE", str(tmp_path))
    names = iter(["GPU A", "GPU A", "GPU B"])
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: next(names))
    tried: list[Launch] = []

    def make_timer(call: partial[None]):
        (launch,) = call.args

        def time() -> float:
            tried.append(launch)
            return 1.0 if launch.chunk == 16 else 2.0

        return time

    monkeypatch.setattr("phasewise.kit.tuning.make_timer", make_timer)
    best = tuning.tune_launch(lambda launch: None, "forward", 64, 2048, eta=1.0)
    assert best.chunk == 16
    count = len(tried)
    assert count > 2 * tuning.ROUNDS
    assert tuning.tune_launch(lambda launch: None, "forward", 64, 2048, eta=1.0) == best
    assert len(tried) == count
    tuning.tune_launch(lambda launch: None, "forward", 64, 2048, eta=1.0)
    assert len(tried) == 2 * count
    assert {json.loads(file.read_text())["device"] for file in tmp_path.iterdir()} == {"GPU A", "GPU B"}


def test_all_candidates_cover_the_row() -> None:
    for batch, length in ((4096, 2048), (8, 1024), (1, 65_536)):
        for launch in tuning.list_candidates(batch, length, eta=1.0):
            assert launch.chunk * launch.span * launch.count_parts(length) >= length
            assert launch.span > 0


@pytest.mark.gpu
@pytest.mark.parametrize("case", workload.cases)
def test_on_a_gpu_the_last_form_is_right_and_falls_back_nowhere(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHASEWISE_BK_CACHE", str(tmp_path))
    shape = workload.cases[case].small
    batch = program.make_inputs(case, shape, 3)
    built = program.build(Switches(core="fused", analytic=True, graph="documented" in case), batch, case, shape,
                          torch.device("cuda"))  # fmt: skip
    assert built.fallbacks == ()
    rows = torch.arange(8)
    plain = program.reference(batch, case, shape, items=rows)
    exact = plain.outputs(plain.step(batch))
    for _ in range(2):
        raw = built.step({name: part.float().cuda() for name, part in batch.items()})
        found = built.outputs(raw) if built.outputs else raw
        for name, whole in exact.items():
            assert ((found[name][:8].cpu() - whole).abs().max() / whole.abs().max()).item() < 1e-5


def test_a_launch_that_is_no_clear_gain_is_not_taken() -> None:
    usual, other = Launch(16, 2, 128), Launch(8, 3, 256)
    for seconds, chosen in ((0.98, usual), (0.9, other)):
        assert tuning.choose_fastest({usual: 1.0, other: seconds}, usual, tuning.CLEAR_GAIN) is chosen
