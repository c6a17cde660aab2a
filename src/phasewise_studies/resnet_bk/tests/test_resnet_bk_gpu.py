"""Every variant on a GPU against float64, captured and compiled ones really captured and compiled, ranks over NCCL."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from phasewise import Shape
from phasewise.kit.ranks import Rank
from phasewise_studies.resnet_bk import program
from phasewise_studies.resnet_bk.core import features_loop
from phasewise_studies.resnet_bk.kernels.core import features
from phasewise_studies.resnet_bk.reference import parameters_in
from phasewise_studies.resnet_bk.switches import Switches
from phasewise_studies.resnet_bk.tests.resnet_bk_cases import STACK, build, run_steps
from phasewise_studies.resnet_bk.tests.resnet_bk_two_ranks import run_two_ranks
from phasewise_studies.resnet_bk.train import make_training, place_rows

pytestmark = pytest.mark.gpu
GPU = torch.device("cuda", 0)
# the document's width, layers and length; a vocabulary and a batch that fill no tile
SHAPE = Shape(batch=10, length=128, vocabulary=509, width=64, layers=4, causal=False)
FUSED = {**STACK, "precision": "bfloat16", "fused_update": True}
EXACT, HALF = 2e-5, 5e-3
VARIANTS = {
    "baseline": ({}, EXACT),
    "fused-core": ({"core": "fused"}, EXACT),
    "wide-experts": (STACK, EXACT),
    "amp": ({**STACK, "precision": "bfloat16"}, HALF),
    "amp-fp16": ({**STACK, "precision": "float16"}, HALF),
    "padded": ({**STACK, "precision": "bfloat16", "padded": True}, HALF),
    "accumulate": ({**STACK, "precision": "bfloat16", "accumulate": 2}, HALF),
    "offload": ({**STACK, "precision": "bfloat16", "offload": True}, HALF),
    "fused-update-float32": ({**STACK, "fused_update": True}, EXACT),
    "fused-update": (FUSED, HALF),
    "compile": ({**FUSED, "compiled": True}, HALF),
    "cuda-graph": ({**FUSED, "graph": True}, HALF),
    "all": ({**FUSED, "compiled": True, "graph": True}, HALF),
}


@pytest.fixture(scope="module")
def exact() -> dict[bool, list[dict[str, float]]]:
    """Three float64 steps for both directions and causal."""
    found = {}
    for causal in (False, True):
        shape = Shape(**{**SHAPE, "causal": causal})
        reference = program.reference(program.make_inputs("documented", shape, 0), "documented", shape)
        found[causal] = run_steps(reference, shape=shape)
    return found


@pytest.mark.parametrize("causal", [False, True], ids=["both", "causal"])
@pytest.mark.parametrize("name", VARIANTS)
def test_three_steps_on_a_gpu_follow_float64_without_a_fallback(exact, name: str, causal: bool) -> None:
    switches, allowed = VARIANTS[name]
    shape = Shape(**{**SHAPE, "causal": causal})
    built = build(shape, device=GPU, **switches)
    assert built.fallbacks == ()
    for now, wanted in zip(run_steps(built, shape=shape), exact[causal], strict=True):
        assert now["loss"] == pytest.approx(wanted["loss"], rel=allowed)
        assert now["grad_norm"] == pytest.approx(wanted["grad_norm"], rel=10 * allowed)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "length"), [(1, 1), (3, 5), (128, 128)])
def test_the_core_s_kernels_have_float64_s_value_and_gradient(rows: int, length: int, causal: bool) -> None:
    generator = torch.Generator().manual_seed(length)
    a = -2 + 3 * (2 * torch.rand(rows, length, generator=generator, dtype=torch.float64) - 1)
    upstream = torch.randn(rows, length, 2, generator=generator, dtype=torch.float64)
    leaf, wide = a.float().to(GPU).requires_grad_(), a.clone().requires_grad_()
    value, exact = features(leaf, causal), features_loop(wide, causal)
    value.backward(upstream.float().to(GPU))
    exact.backward(upstream)
    torch.testing.assert_close(value.cpu().double(), exact, rtol=1e-4, atol=1e-6)
    assert float((leaf.grad.cpu() - wide.grad).norm() / wide.grad.norm()) < 1e-5


def test_a_captured_step_goes_on_from_a_loaded_checkpoint(tmp_path: Path) -> None:
    switches = {**FUSED, "graph": True}
    steady = build(SHAPE, device=GPU, **switches)
    run_steps(steady, 3, SHAPE)
    torch.save(dict(steady.state()), tmp_path / "checkpoint.pt")
    resumed = build(SHAPE, device=GPU, **switches)
    resumed.load(torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    for one, other in zip(run_steps(resumed, 3, SHAPE), run_steps(steady, 3, SHAPE), strict=True):
        # the embedding's gradient may be added in another order
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)


@pytest.mark.parametrize("graph", [False, True])
def test_streaming_on_a_gpu_gives_the_plain_logits(graph: bool) -> None:
    shape = Shape(**{**SHAPE, "causal": True})
    batch = program.make_inputs("decode", shape, 1)
    built = build(shape, "decode", GPU, streaming=True, graph=graph)
    assert built.fallbacks == ()
    found = built.step(built.place(batch))
    reference = program.reference(batch, "decode", shape)
    for name, wanted in reference.step(reference.place(batch)).items():
        torch.testing.assert_close(found[name].double().cpu(), wanted.cpu(), rtol=1e-3, atol=1e-4)


def test_a_real_shortage_of_memory_halves_the_micro_batch() -> None:
    shape = Shape(batch=64, length=128, vocabulary=512, width=64, layers=4, causal=False)
    inputs = program.make_inputs("documented", shape, 0)
    example = place_rows(inputs, Rank(), GPU)
    training = make_training(
        Switches(**STACK, adapt=True), parameters_in(inputs), example, program.sizes_of(shape), GPU
    )
    wanted = float(training.step(example)["loss"])
    needed = torch.cuda.max_memory_allocated()
    total = torch.cuda.get_device_properties(GPU).total_memory
    torch.cuda.empty_cache()
    short = make_training(Switches(**STACK, adapt=True), parameters_in(inputs), example, program.sizes_of(shape), GPU)
    held = torch.cuda.memory_allocated()
    torch.cuda.set_per_process_memory_fraction((held + 0.7 * (needed - held)) / total)
    try:
        found = float(short.step(example)["loss"])
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert short.fitted.rows < 64 and short.fitted.history[0].error
    assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs 2 GPUs; run on a machine that has them")
def test_two_gpus_train_as_one_over_nccl() -> None:
    first, second = run_two_ranks()
    alone = run_steps(build(device=GPU, **STACK))
    for way in ("ddp", "flat"):
        assert first[way] == second[way]
        for one, other in zip(first[way], alone, strict=True):
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
