"""Every case at `tiny`, from the baseline to the whole stack, against float64; and the checks that judge them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from phasewise import CheckContext, Program, Shape, Unsupported
from phasewise.bench.case import copy_to_cpu, fill_defaults
from phasewise_studies.polychromic import checks, program
from phasewise_studies.polychromic.model import replies
from phasewise_studies.polychromic.model.llama import run_layers
from phasewise_studies.polychromic.phases import workload
from phasewise_studies.polychromic.switches import EVERYTHING, Switches
from phasewise_studies.polychromic.variants.common import refuse_long

CPU = torch.device("cpu")
# cases that run at `full` only have no sizes of their own here
SMALL = {
    "replies": Shape(model="tiny", prompts=2, replies=3, prompt=10, tokens=6),
    "replies-24": Shape(model="tiny", prompts=3, replies=2, prompt=9, tokens=6),
    "many-steps": Shape(
        model="tiny", encoder="tiny", examples=2, micro=1, replies=2, prompt=8, tokens=4, length=16, steps=3
    ),
    # with a small model: never 8 B on a CPU
    "window-8b": Shape(
        model="tiny", encoder="tiny", examples=2, micro=1, replies=2, prompt=8, tokens=4, length=16, steps=2
    ),
}
EXACT = {**EVERYTHING, "half": False}


def size(case: str) -> Shape:
    return workload.cases[case].tiny or SMALL[case]


def run(built: Program, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return copy_to_cpu(built.outputs(built.step(built.place(batch))))


def make_context(case: str, switches: dict, device: torch.device = CPU) -> CheckContext:
    shape = size(case)

    def build(**changed) -> Program:
        chosen = Switches(**{**switches, **changed})
        return fill_defaults(program.build(chosen, program.make_inputs(case, shape, 0), case, shape, device), device)

    return CheckContext(
        build=build, reference=lambda: None, run=run, inputs=lambda seed: program.make_inputs(case, shape, seed),
        switches=Switches(**switches), case=case, shape=shape, device=device, rtol=1e-4, atol=5e-4,
    )  # fmt: skip


def compare(case: str, switches: dict, atol: float, device: torch.device = CPU) -> None:
    shape = size(case)
    batches = [program.make_inputs(case, shape, seed) for seed in range(2)]
    reference = fill_defaults(program.reference(batches[0], case, shape), CPU, torch.float64)
    built = fill_defaults(program.build(Switches(**switches), batches[0], case, shape, device), device)
    for batch in batches:
        expected, found = run(reference, batch), program.audit(batch, run(built, batch), case, shape)
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            error = (found[name].double() - tensor).abs() - 2e-2 * (atol > 1e-2) * tensor.abs()
            assert float(error.max()) < atol, name


@pytest.mark.parametrize("case", workload.cases)
def test_the_whole_stack_in_float32_agrees_with_float64(case: str) -> None:
    compare(case, EXACT, 5e-4)


def test_a_reply_takes_as_many_forward_passes_as_it_has_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []
    monkeypatch.setattr(replies, "run_layers", lambda *given: passes.append(1) or run_layers(*given))
    built = make_context("replies", {}).build()
    shape, batch = size("replies"), program.make_inputs("replies", size("replies"), 0)
    drawn = built.step(built.place(batch)).tokens_RT
    assert replies.is_live(drawn).all(), "a seed without an early end"
    assert len(passes) == shape.prompts * shape.replies * shape.tokens


@pytest.mark.parametrize("case", ["train-step", "replies", "encode", "diversity"])
def test_the_baseline_agrees_with_float64(case: str) -> None:
    compare(case, {}, 5e-4)


def test_a_step_of_many_is_as_many_steps_of_one() -> None:
    shape = SMALL["many-steps"]
    one_by_one = Shape(**{**shape, "steps": 1})
    switches = Switches(**EXACT)
    batch = program.make_inputs("many-steps", shape, 0)
    many = program.build(switches, batch, "many-steps", shape, CPU)
    single = program.build(switches, batch, "train-step", one_by_one, CPU)
    many.step(many.place(batch))
    for index in range(shape.steps):
        single.step(single.place({name: tensor[index : index + 1] for name, tensor in batch.items()}))
    assert many.state()["steps"] == shape.steps
    for name, tensor in single.state().items():
        assert torch.allclose(many.state()[name], tensor, atol=1e-7), name


def test_a_wrong_loss_of_the_last_of_many_steps_is_noticed() -> None:
    shape = SMALL["many-steps"]
    batch = program.make_inputs("many-steps", shape, 0)
    built = program.build(Switches(), batch, "many-steps", shape, CPU)
    raw = built.step(built.place(batch))
    found = program.audit(batch, built.outputs(raw), "many-steps", shape)
    assert abs(float(found["quality_error"])) < 1e-5
    # the loss at the adapters before the first step: the last ones are not the same
    raw["before"] = torch.zeros_like(raw["before"]) + 0.05
    found = program.audit(batch, built.outputs(raw), "many-steps", shape)
    assert abs(float(found["quality_error"])) > 1e-3


def test_bfloat16_stays_within_its_tolerance() -> None:
    compare("train-step", EVERYTHING, 0.1)


def test_the_state_comes_back_whatever_the_optimizer() -> None:
    batch = program.make_inputs("micro-step", workload.cases["micro-step"].tiny, 0)
    for switches in ({}, {"flat_update": True}):
        one, two = (make_context("micro-step", switches).build() for _ in range(2))
        run(one, batch)
        two.load(copy_to_cpu(one.state()))
        again = [run(built, batch)["quality"] for built in (one, two)]
        assert torch.equal(*again)
        assert torch.equal(one.state()["lora"], two.state()["lora"])


def test_both_optimizers_take_the_same_steps() -> None:
    batch = program.make_inputs("micro-step", workload.cases["micro-step"].tiny, 0)
    states = []
    for switches in ({}, {"flat_update": True}):
        built = make_context("micro-step", switches).build()
        for _ in range(2):
            run(built, batch)
        states.append(built.state())
    assert torch.allclose(states[0]["lora"], states[1]["lora"], atol=1e-6)
    assert torch.allclose(states[0]["square"], states[1]["square"], atol=1e-8)


def test_checkpointing_changes_no_gradient() -> None:
    batch = program.make_inputs("micro-step", workload.cases["micro-step"].tiny, 0)
    gradients = []
    for switches in ({}, {"checkpointing": True}):
        built = make_context("micro-step", switches).build()
        run(built, batch)
        gradients.append(built.state()["grad/lora"])
    assert torch.allclose(*gradients, atol=1e-6)


@pytest.mark.parametrize(
    ("check", "case", "switches"),
    [
        ("greedy_as_plain", "replies", EXACT),
        ("sampled_frequencies", "replies", EXACT),
        ("lora_gradients", "train-step", EXACT),
        ("gradient_of_diversity", "train-step", {}),
        ("gradient_of_diversity", "train-step", {"mode": "faithful"}),
        ("embeddings_apart", "encode", {"sdpa": True}),
        ("pairs_agree", "diversity", {"diversity": "closed"}),
        ("document_hours", "window", EXACT),
    ],
)
def test_a_check_passes_on_a_right_program(check: str, case: str, switches: dict) -> None:
    found = getattr(checks, check)(make_context(case, switches))
    assert found.passed, found.message


def test_faithful_has_no_gradient_of_diversity_and_set_pg_has_one() -> None:
    shares = {}
    for mode in ("faithful", "set_pg"):
        found = checks.gradient_of_diversity(make_context("train-step", {"mode": mode}))
        shares[mode] = found.numbers["gradient of diversity over that of the loss"].value
    assert shares["faithful"] == 0
    assert shares["set_pg"] > 1e-3


def test_wrong_gradients_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = checks.exact_gradient
    monkeypatch.setattr(checks, "exact_gradient", lambda *given: exact(*given).roll(1))
    assert not checks.lora_gradients(make_context("micro-step", {})).passed


@pytest.mark.slow
def test_diversity_rises_in_100_steps_of_set_pg_and_stays_under_faithful() -> None:
    found = checks.diversity_trains(make_context("train-step", {**EXACT, "shared_cache": True}))
    assert found.passed, found.message


def test_a_step_of_minutes_is_refused_on_a_gpu_with_its_reason() -> None:
    shape = workload.cases["window"].full
    with pytest.raises(Unsupported, match="4800 forward passes one after another"):
        refuse_long(Switches(), shape, shape.examples, torch.device("cuda"))
    refuse_long(Switches(**EVERYTHING), shape, shape.examples, torch.device("cuda"))


@pytest.mark.parametrize(
    ("case", "switches"),
    [("train-step", {}), ("decode", {"batching": "window"}), ("replies", {"decode_graph": True})],
)
def test_forms_that_a_case_is_there_for_are_not_refused(case: str, switches: dict) -> None:
    shape = workload.cases[case].full
    refuse_long(Switches(**switches), shape, shape.get("examples", shape.get("prompts")), torch.device("cuda"))


def test_shapes_of_slow_baselines_are_not_refused() -> None:
    for shape in workload.cases["replies"].baseline_at["full"]:
        refuse_long(Switches(), shape, shape.prompts, torch.device("cuda"))


def test_the_floor_of_a_reply_is_the_reading_of_all_weights_for_each_token() -> None:
    shape = workload.cases["replies"].full
    # 134.5 million parameters of two bytes, 100 times
    assert program.work("replies", shape).bytes > 100 * 2 * 134.4e6


@pytest.mark.gpu
@pytest.mark.parametrize("case", workload.cases)
def test_on_a_gpu_the_whole_stack_agrees_with_float64(case: str) -> None:
    compare(case, EXACT, 1e-3, torch.device("cuda"))
    compare(case, EVERYTHING, 0.15, torch.device("cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "switches",
    [{"batching": "window", "shared_cache": True, "device_sampling": True}, {"batching": "window", "shared_cache": True, "device_sampling": True, "decode_graph": True}],
)  # fmt: skip
def test_on_a_gpu_the_steps_between_agree_with_float64(switches: dict) -> None:
    compare("replies", switches, 1e-3, torch.device("cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("check", "case"),
    [
        ("greedy_as_plain", "replies"),
        ("sampled_frequencies", "replies"),
        ("lora_gradients", "train-step"),
        ("pairs_agree", "diversity"),
    ],
)
def test_on_a_gpu_a_check_passes_on_the_whole_stack(check: str, case: str) -> None:
    found = getattr(checks, check)(make_context(case, EVERYTHING, torch.device("cuda")))
    assert found.passed, found.message
