from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from phasewise import Shape
from phasewise_studies.resnet_bk import program, reference
from phasewise_studies.resnet_bk.core import features_loop
from phasewise_studies.resnet_bk.experts import EXPERTS, run_loop, run_wide
from phasewise_studies.resnet_bk.inference import Forward, Streaming, iterate
from phasewise_studies.resnet_bk.kernels.core import features
from phasewise_studies.resnet_bk.model import LanguageModel, Sizes, Ways, make_model
from phasewise_studies.resnet_bk.tests.resnet_bk_cases import CAUSAL, CPU, TINY

FUSED = Ways(core=features, experts=run_wide)


def make(shape: Shape, ways: Ways) -> tuple[LanguageModel, dict[str, torch.Tensor]]:
    inputs = program.make_inputs("documented", shape, 0)
    return make_model(program.sizes_of(shape), ways, reference.parameters_in(inputs), CPU), inputs


def test_the_documented_model_has_as_many_parameters_as_was_published() -> None:
    with torch.device("meta"):
        model = LanguageModel(Sizes(76_617, 64, 4, 128), Ways())
    count = sum(parameter.numel() for parameter in model.parameters())
    # 10.16 million
    assert round(count / 1e4) == 1016


def test_inputs_are_made_without_the_compiler() -> None:
    # a judge makes them in a process of its own, a few dozen in a run
    script = (
        "import sys\n"
        "from phasewise_studies.resnet_bk.model import Sizes, draw_parameters\n"
        "import torch\n"
        "draw_parameters(Sizes(32, 8, 1, 4), torch.Generator())\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("shape", [TINY, CAUSAL], ids=["both directions", "causal"])
@pytest.mark.parametrize("ways", [Ways(), FUSED], ids=["loops", "fused"])
def test_logits_agree_with_the_plain_float64_model(shape: Shape, ways: Ways) -> None:
    model, inputs = make(shape, ways)
    parameters = reference.parameters_in(inputs)
    x, _ = reference.run_body(parameters, inputs["tokens"], None, bool(shape.causal))
    exact = x @ parameters["head.weight"].t() + parameters["head.bias"]
    assert float((model.logits(inputs["tokens"]).detach() - exact).abs().max()) < 1e-5


def test_the_causal_model_does_not_see_the_future_and_the_documented_one_does() -> None:
    for shape, leaks in ((CAUSAL, False), (TINY, True)):
        model, inputs = make(shape, FUSED)
        tokens = inputs["tokens"]
        other = tokens.clone()
        other[:, 9:] = (other[:, 9:] + 1) % shape.vocabulary
        with torch.no_grad():
            before, after = model.logits(tokens), model.logits(other)
        assert torch.equal(before[:, :9], after[:, :9]) is not leaks
        assert not torch.equal(before[:, 9:], after[:, 9:])


@pytest.mark.parametrize("causal", [False, True])
def test_the_fused_core_has_the_loop_s_value_and_gradient(causal: bool) -> None:
    a = torch.rand(3, 31, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 6 - 5
    one, other = a.clone().requires_grad_(), a.clone().requires_grad_()
    upstream = torch.rand(3, 31, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    loop, fused = features_loop(one, causal), features(other, causal)
    torch.testing.assert_close(fused, loop, rtol=1e-12, atol=1e-14)
    loop.backward(upstream)
    fused.backward(upstream)
    torch.testing.assert_close(other.grad, one.grad, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
def test_the_core_is_an_operator_that_compilers_can_trace(causal: bool) -> None:
    a = torch.rand(2, 7, requires_grad=True)
    torch.library.opcheck(features, (a, causal))


def test_wide_experts_are_the_documented_ones_with_and_without_dropout_and_for_idle_experts() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = 16 * EXPERTS
    shapes = ((40, 8), (hidden, 8), (hidden,), (8, hidden), (EXPERTS, 8))
    x, *weights = (torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True) for shape in shapes)
    # nobody chose the last expert
    choice = torch.randint(0, EXPERTS - 1, (40,), generator=generator)
    for keep in (None, (torch.rand(40, 16, generator=generator) > 0.5).to(torch.uint8)):
        gradients = []
        for run in (run_loop, run_wide):
            out = run(x, choice, keep, *weights)
            gradients.append((out, *torch.autograd.grad(out.square().sum(), (x, *weights))))
        torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-13)


def test_streaming_with_one_complex_number_a_layer_is_the_full_pass() -> None:
    model, inputs = make(CAUSAL, FUSED)
    tokens = inputs["tokens"]
    stream = Streaming(model)
    state = torch.zeros(CAUSAL.layers, len(tokens), 2)
    with torch.no_grad():
        full = Forward(model)(tokens)
        iterated = Forward(model, iterated=True)(tokens)
        for index in range(tokens.shape[1]):
            found = stream(tokens[:, index], torch.tensor([index]), state)
            state = found["features"]
            torch.testing.assert_close(found["logits"], full[:, index], rtol=0, atol=1e-5)
    torch.testing.assert_close(iterated, full, rtol=0, atol=1e-5)
    assert state.numel() == 2 * CAUSAL.layers * len(tokens)


def test_passes_over_all_positions_forget_their_start_even_where_that_is_slowest() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = -2 + 3 * (2 * torch.rand(4, 128, dtype=torch.float64, generator=generator) - 1)
    for a in (drawn, torch.zeros_like(drawn)):
        torch.testing.assert_close(iterate(a), features_loop(a, True), rtol=0, atol=1e-9)


@pytest.mark.parametrize("streaming", [False, True])
def test_both_ways_to_decode_export_and_give_the_same(streaming: bool) -> None:
    from phasewise_studies.resnet_bk.tests.resnet_bk_cases import build

    built = build(CAUSAL, "decode", streaming=streaming)
    placed = built.place(program.make_inputs("decode", CAUSAL, 0))
    # the exported one is made of PyTorch's own operators; the prefix form needs the plain recursion, in complex numbers
    exported = torch.export.export(built.module.eval(), (), placed, strict=False).module()(**placed)
    wanted = built.step(placed)
    for name, value in wanted.items():
        torch.testing.assert_close(exported[name], value, rtol=1e-4, atol=1e-5)
