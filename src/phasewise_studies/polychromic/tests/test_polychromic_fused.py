"""The fused learning path: its kernels interpreted, its algebra in float64, its gradients in bfloat16 on a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from phasewise import Shape
from phasewise.kit.graphs import capture
from phasewise_studies.polychromic import trainer
from phasewise_studies.polychromic.model.encoder import TINY_ENCODER, draw_encoder
from phasewise_studies.polychromic.model.fused_layers import fused_log_probabilities
from phasewise_studies.polychromic.model.llama import project
from phasewise_studies.polychromic.model.lora import GROUPS
from phasewise_studies.polychromic.model.weights import SMOLLM2, TINY, draw_weights
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.tests.fused_model import QWEN3, SHAPE, draw_batches, gradients, make_forwards
from phasewise_studies.polychromic.trainer import token_log_probabilities
from phasewise_studies.polychromic.variants.learning import assemble, why_not_fused
from phasewise_studies.testing import interpret_once

GIVEN = Shape(model="tiny", encoder="tiny", examples=2, micro=2, replies=0, prompt=0, tokens=0, length=9, steps=1)


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """How far each kernel is off."""
    return interpret_once(tmp_path_factory, "phasewise_studies.polychromic.tests.interpret_fused")


@pytest.mark.parametrize("name", ["norm", "turn", "turn with a norm", "gate", "loss"])
def test_a_kernel_and_its_backward_pass_are_those_of_autograd_in_float64(interpreted, name: str) -> None:
    assert max(interpreted[name]) < 2e-5


@pytest.mark.parametrize("name", ["norm", "gate", "loss"])
def test_a_kernel_rounds_to_bfloat16_at_its_end_only(interpreted, name: str) -> None:
    # two roundings, h and what is made of it; the interpreter cuts off where a GPU rounds
    assert max(interpreted[f"{name} bfloat16"]) < 2**-7


@pytest.mark.parametrize("name", ["model", "qwen3"])
def test_the_model_by_kernels_has_the_gradients_of_the_plain_one_and_repeats(interpreted, name: str) -> None:
    case = interpreted[name]
    assert case["log_p"] < 1e-4
    assert case["error"] < 1e-4
    assert case["cosine"] > 1 - 1e-8
    assert case["repeats"]


@pytest.mark.parametrize(
    ("shape", "sizes", "rank"),
    [
        (SHAPE, ((2, 7), (3, 4)), 16),
        (QWEN3, ((2, 7), (3, 4)), 16),
        (replace(QWEN3, tied=True), ((1, 13),), 3),
        (TINY, ((1, 13),), 3),
        (TINY, ((1, 1), (2, 63), (1, 127)), 16),
        (TINY, ((1, 500),), 16),
    ],
)
def test_the_algebra_is_exact(shape, sizes, rank: int) -> None:
    plain, fused = make_forwards(shape, torch.float64, rank=rank)
    batches = draw_batches(shape, sizes)
    wanted, exact = gradients(plain, batches)
    found, own = gradients(fused, batches)
    for a, b in zip(found, wanted, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
    assert torch.allclose(own, exact, atol=1e-11 * float(exact.abs().max()))


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_of_projections_has_the_gradients_of_each(name: str) -> None:
    plain, fused = make_forwards(SHAPE, torch.float64)
    group = fused.joined[name]
    group.refresh()
    x, dy = torch.randn(2, 5, group.into).double(), torch.randn(2, 5, group.out).double()
    inputs, grads = (functional.pad(part, (0, group.ranks)) for part in (x, dy))
    for layer in range(2):
        leaf = x[layer].clone().requires_grad_()
        parts = getattr(plain.weights, name)[layer].split([one.b_LOR.shape[1] for one in group.adapters])
        y = torch.cat(
            [project(leaf, part, plain, layer, which) for part, which in zip(parts, GROUPS[name], strict=True)], 1
        )
        y.backward(dy[layer])
        assert torch.allclose(group.project(layer, inputs[layer]), y, atol=1e-12)
        assert torch.allclose(group.project_back(layer, grads[layer]), leaf.grad, atol=1e-12)
    group.accumulate(inputs, grads)
    assert torch.allclose(fused.lora.gradient, plain.lora.gradient, atol=1e-12)
    assert bool(fused.lora.gradient.any())


def test_gradients_add_up_and_new_adapters_are_taken_over() -> None:
    plain, fused = make_forwards(TINY, torch.float64)
    (tokens,) = draw_batches(TINY, ((2, 9),))
    for forward in (plain, fused):
        for _ in range(2):
            token_log_probabilities(forward, tokens).sum().backward()
            forward.lora.copy_from(1.5 * forward.lora.flat)
    assert torch.allclose(fused.lora.gradient, plain.lora.gradient, rtol=1e-9)
    with torch.no_grad():
        found = token_log_probabilities(fused, tokens)
        assert torch.allclose(found, token_log_probabilities(plain, tokens), atol=1e-12)


def test_a_second_backward_pass_is_refused() -> None:
    _, fused = make_forwards(TINY, torch.float64)
    loss = token_log_probabilities(fused, draw_batches(TINY)[0]).sum()
    loss.backward(retain_graph=True)
    with pytest.raises((AttributeError, RuntimeError)):
        loss.backward()


def test_a_micro_step_of_texts_and_replies_together_is_that_of_one_after_the_other() -> None:
    results = []
    for forward in make_forwards(TINY, torch.float64):
        parts = trainer.Parts(
            forward=forward, lora=forward.lora, generate=None, embed=None, diversity=None, update=None, micro=2, together=2
        )  # fmt: skip
        tokens, joined = draw_batches(TINY, ((2, 9), (4, 7)))
        batch = {
            "tokens": tokens, "is_reply": (torch.arange(9) > 4).long().expand(2, -1), "joined": joined,
            "live": (torch.arange(6) > 2).expand(4, -1), "marginals": torch.tensor([0.3, -0.2, 0.1, 0.4]).double(),
            "share": torch.tensor(0.25).double(),
        }  # fmt: skip
        terms = trainer.make_micro_step(parts, 2)(batch)
        results.append((terms["quality"], terms["policy"], forward.lora.gradient))
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


def test_where_there_is_no_kernel_the_plain_layers_learn_and_say_why() -> None:
    weights = draw_weights(TINY)
    switches = Switches(fused_learning=True)
    parts, fallbacks = assemble(switches, weights, draw_encoder(TINY_ENCODER), GIVEN)
    assert parts.forward.joined is None
    assert fallbacks == ("fused-learning: no NVIDIA GPU, the plain layers ran instead",)
    assert assemble(Switches(), weights, draw_encoder(TINY_ENCODER), GIVEN)[1] == ()


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [((2, 512),), ((2, 512), (6, 228)), ((1, 63), (3, 127))])
def test_on_a_gpu_gradients_in_bfloat16_have_the_direction_of_float32_in_a_graph_too(sizes) -> None:
    shape = replace(SMOLLM2, layers=4)
    batches = [tokens.cuda() for tokens in draw_batches(shape, sizes)]
    others = [tokens.flip(0, 1) for tokens in batches]
    plain, _ = make_forwards(shape, torch.float32, "cuda", alpha=16.0)
    _, fused = make_forwards(shape, torch.bfloat16, "cuda", alpha=16.0)
    captured = capture(lambda given: gradients(fused, given)[1], batches)
    assert captured.is_graph, captured.reason
    for given in (batches, others, others):
        exact = gradients(plain, given)[1]
        eager = gradients(fused, given)[1]
        replayed = captured.call(given).clone()
        # cuDNN's attention adds its gradients in an order of its own each time
        assert float((replayed - eager).norm() / eager.norm()) < 2e-2
        for found in (eager, replayed):
            assert float(functional.cosine_similarity(found, exact, dim=0)) >= 0.999
            assert abs(float(found.norm() / exact.norm()) - 1) < 2e-2
        # as after an optimizer step
        for forward in (plain, fused):
            forward.lora.copy_from(1.1 * forward.lora.flat)


@pytest.mark.gpu
def test_on_a_gpu_gradients_in_float32_are_the_plain_ones() -> None:
    plain, fused = make_forwards(SHAPE, torch.float32, "cuda")
    batches = [tokens.cuda() for tokens in draw_batches(SHAPE, ((2, 63), (1, 127), (1, 500)))]
    (wanted, exact), (found, own) = gradients(plain, batches), gradients(fused, batches)
    for a, b in zip(found, wanted, strict=True):
        assert float((a - b).abs().max()) < 1e-3
    assert float((own - exact).abs().max()) < 1e-3 * float(exact.abs().max())
    assert not why_not_fused(Switches(fused_learning=True), fused.weights)
    with torch.no_grad():
        assert torch.equal(fused_log_probabilities(fused, batches)[0], found[0])
    # with attention written out nothing adds in an order of its own
    fixed = replace(fused, sdpa=False)
    assert torch.equal(gradients(fixed, batches)[1], gradients(fixed, batches)[1])
