from __future__ import annotations

from pathlib import Path

import pytest
import torch

from phasewise import Shape, Unsupported
from phasewise.kit.ranks import Rank
from phasewise_studies.resnet_bk import checks, padding, program
from phasewise_studies.resnet_bk.model import LanguageModel
from phasewise_studies.resnet_bk.reference import parameters_in
from phasewise_studies.resnet_bk.switches import Switches
from phasewise_studies.resnet_bk.tests.resnet_bk_cases import CAUSAL, CPU, STACK, TINY, build, make_context, run_steps
from phasewise_studies.resnet_bk.tests.resnet_bk_two_ranks import run_two_ranks
from phasewise_studies.resnet_bk.train import make_training, place_rows

ODD = Shape(**{**TINY, "vocabulary": 509})
# switches and how far loss and gradient norm may lie from float64's, relatively
EXACT, HALF = 1e-5, 3e-3
VARIANTS = {
    "baseline": ({}, EXACT),
    "fused-core": ({"core": "fused"}, EXACT),
    "wide-experts": (STACK, EXACT),
    "amp": ({**STACK, "precision": "bfloat16"}, HALF),
    "amp-fp16": ({**STACK, "precision": "float16"}, HALF),
    "padded": ({**STACK, "padded": True}, EXACT),
    "accumulate": ({**STACK, "accumulate": 4}, EXACT),
    "offload": ({**STACK, "offload": True}, EXACT),
    "dynamic": ({"adapt": True}, EXACT),
    "fused-update": ({**STACK, "fused_update": True}, EXACT),
    "graph": ({**STACK, "graph": True}, EXACT),
}


@pytest.fixture(scope="module")
def exact() -> dict[bool, list[dict[str, float]]]:
    """Three steps of the float64 reference, both directions and causal, on the odd vocabulary."""
    found = {}
    for causal in (False, True):
        shape = Shape(**{**ODD, "causal": causal})
        inputs = program.make_inputs("documented", shape, 0)
        found[causal] = run_steps(program.reference(inputs, "documented", shape), shape=shape)
    return found


@pytest.mark.parametrize("causal", [False, True], ids=["both", "causal"])
@pytest.mark.parametrize("name", VARIANTS)
def test_three_steps_follow_the_float64_reference(exact, name: str, causal: bool) -> None:
    switches, allowed = VARIANTS[name]
    shape = Shape(**{**ODD, "causal": causal})
    found = run_steps(build(shape, **switches), shape=shape)
    for now, wanted in zip(found, exact[causal], strict=True):
        assert now["loss"] == pytest.approx(wanted["loss"], rel=allowed)
        assert now["grad_norm"] == pytest.approx(wanted["grad_norm"], rel=10 * allowed)


@pytest.mark.parametrize("name", ["baseline", "amp-fp16", "padded", "offload", "fused-update"])
def test_a_checkpoint_resumes_with_the_same_losses(name: str, tmp_path: Path) -> None:
    switches, _ = VARIANTS[name]
    steady = build(ODD, **switches)
    run_steps(steady, 4, ODD)
    torch.save(dict(steady.state()), tmp_path / "checkpoint.pt")
    resumed = build(ODD, **switches)
    resumed.load(torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    assert run_steps(resumed, 4, ODD) == run_steps(steady, 4, ODD)


def test_a_checkpoint_holds_the_scaler_and_no_padding() -> None:
    state = build(ODD, precision="float16", padded=True).state()
    assert {"scaler/scale", "scaler/growth_tracker", "scaler/overflows"} <= state.keys()
    assert state["head.weight"].shape == (509, 16) and state["moment/head.bias"].shape == (509,)


def test_an_overflow_is_counted_and_moves_nothing() -> None:
    built = build(ODD, **STACK, precision="float16")
    state = {name: tensor.clone() for name, tensor in built.state().items()}
    built.load(state | {"scaler/scale": torch.tensor(2.0**40)})
    run_steps(built, 1, ODD)
    after = built.state()
    assert int(after["scaler/overflows"]) == 1
    assert float(after["scaler/scale"]) == 2.0**39
    assert torch.equal(after["head.weight"], state["head.weight"])


def test_the_router_never_moves() -> None:
    built = build(**STACK)
    before = built.state()["blocks.0.router.weight"].clone()
    run_steps(built)
    assert torch.equal(built.state()["blocks.0.router.weight"], before)
    assert "moment/blocks.0.router.weight" not in built.state()


def test_running_out_of_memory_halves_the_micro_batch_and_keeps_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = program.make_inputs("documented", TINY, 0)
    example = place_rows(inputs, Rank(), CPU)
    training = make_training(Switches(adapt=True), parameters_in(inputs), example, program.sizes_of(TINY), CPU)
    plain = training.model.body

    def short_of_memory(tokens: torch.Tensor, keep: torch.Tensor | None) -> torch.Tensor:
        if len(tokens) > 2:
            raise torch.OutOfMemoryError("only two rows fit")
        return plain(tokens, keep)

    monkeypatch.setattr(training.model, "run_body", short_of_memory)
    found = training.step(example)
    tried = [(attempt.size, bool(attempt.error)) for attempt in training.fitted.history]
    assert tried == [(8, True), (4, True), (2, False)]
    assert float(found["loss"]) == pytest.approx(run_steps(build(), 1)[0]["loss"], rel=1e-6)
    training.step(example)
    # what fitted is remembered
    assert len(training.fitted.history) == 3


@pytest.mark.parametrize("clean", [True, False])
def test_the_check_of_halving_sees_what_a_failed_try_leaves_behind(
    clean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches = Switches(adapt=True)
    context = make_context(switches)
    if not clean:
        monkeypatch.setattr(torch.optim.AdamW, "zero_grad", lambda self, set_to_none=True: None)
    found = checks.halving(context)
    assert "8 failed, 4 fitted" in found.message
    assert found.passed is clean


@pytest.mark.parametrize(
    "switches",
    [
        {"graph": True},
        {"compiled": True},
        {**STACK, "graph": True, "adapt": True},
        {**STACK, "graph": True, "precision": "float16"},
    ],
)
def test_switches_that_exclude_each_other_are_refused_with_the_reason(switches: dict[str, object]) -> None:
    with pytest.raises(Unsupported, match="graph"):
        build(**switches)


def test_a_batch_that_ranks_cannot_share_is_refused() -> None:
    inputs = program.make_inputs("documented", TINY, 0)
    with pytest.raises(Unsupported, match="8 rows"):
        place_rows(inputs, Rank(rank=0, world=3), CPU)


def test_two_processes_train_as_one() -> None:
    first, second = run_two_ranks()
    alone = {shape: run_steps(build(Shape(**{**TINY, "causal": shape}), **STACK), shape=Shape(**{**TINY, "causal": shape}))
             for shape in (False, True)}  # fmt: skip
    assert first["rows"] != second["rows"]
    for told in (first, second):
        # a program of one rank exchanges nothing, although its process belongs to a group
        assert told["alone"] == alone[False]
        assert told["agree"][0], told["agree"][1]
        assert not told["drift"][0], told["drift"][1]
    for way in ("ddp", "flat"):
        assert first[way] == second[way]
        for one, other in zip(first[way], alone[False], strict=True):
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
            assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-4)


def test_ranks_cannot_agree_where_there_is_no_group() -> None:
    found = checks.ranks_agree(make_context(Switches(**STACK, ranks=2)))
    assert not found.passed and "no process group" in found.message


@pytest.mark.parametrize("value", [-torch.inf, 0.0], ids=["right", "classes that do not exist take part"])
def test_the_check_of_padding_sees_classes_that_take_part(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = padding.PaddedClasses.__init__

    def make(self, linear: torch.nn.Linear, multiple: int) -> None:
        plain(self, linear, multiple)
        self.padded_bias.data[linear.out_features :] = value

    monkeypatch.setattr(padding.PaddedClasses, "__init__", make)
    found = checks.padding(make_context(Switches(**STACK, padded=True), ODD))
    assert found.passed is (value != 0), found.message


@pytest.mark.parametrize("check", [checks.core_gradient, checks.routing, checks.fused_loss])
def test_the_checks_of_parts_pass_in_the_case_s_own_shape(check) -> None:
    assert check(make_context(Switches(**STACK), CAUSAL, "causal")).passed


def test_batches_have_parameters_of_their_own() -> None:
    one, other = (program.make_inputs("documented", TINY, seed) for seed in (0, 1))
    one["head.weight"].zero_()
    assert other["head.weight"].abs().max() > 0
    assert torch.equal(program.make_inputs("documented", TINY, 0)["head.weight"], other["head.weight"])


@pytest.mark.slow
def test_losses_fall_over_200_steps_and_half_precision_follows() -> None:
    ends = {}
    for precision in ("float32", "bfloat16"):
        built = build(CAUSAL, **STACK, precision=precision)
        batches = [built.place(program.make_inputs("causal", CAUSAL, seed)) for seed in range(20)]
        losses = [float(built.step(batches[step % 20])["loss"]) for step in range(200)]
        assert sum(losses[-40:]) / 40 < 0.75 * losses[0]
        ends[precision] = sum(losses[-40:]) / 40
    assert ends["bfloat16"] == pytest.approx(ends["float32"], abs=0.05)


@pytest.mark.parametrize(
    ("shape", "leak", "passed"), [(TINY, 0.0, True), (CAUSAL, 0.0, True), (CAUSAL, 1e-6, True), (CAUSAL, 1e-2, False)]
)
def test_the_check_of_the_future_tells_rounding_from_a_leak(
    shape: Shape, leak: float, passed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = LanguageModel.logits

    def logits(model: LanguageModel, tokens: torch.Tensor) -> torch.Tensor:
        found = plain(model, tokens)
        # what the last position says reaches all others
        return found + leak * found[:, -1:]

    monkeypatch.setattr(LanguageModel, "logits", logits)
    found = checks.future(make_context(Switches(**STACK), shape))
    assert found.passed is passed, found.message
