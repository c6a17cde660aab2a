"""Every setting of the switches gives the reference's numbers, and waits for the device only where it says so."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from phasewise import Unsupported
from phasewise.tensors import all_same_bits
from phasewise_studies.lior import program
from phasewise_studies.lior.eager import measure_lior
from phasewise_studies.lior.phases import workload
from phasewise_studies.lior.product.trainer import is_cleanup_due
from phasewise_studies.lior.prologue import convert_states
from phasewise_studies.lior.retrieval import mix_in, split_half
from phasewise_studies.lior.switches import CAPTURED, Switches
from phasewise_studies.lior.tests.lior_runs import (
    EXACT,
    FUSED,
    VARIANTS,
    build,
    make_shape,
    make_switches,
    run_reference,
    run_windows,
    worst_error,
)


class CountWaits(TorchDispatchMode):
    """Counts the reads of a single number, each of which waits for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.waits += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def count_waits(switches: Switches) -> int:
    shape = make_shape(feedback=True)
    made = build(switches, shape)
    batch = made.place(program.make_inputs("any", shape, 0))
    with CountWaits() as counted:
        made.step(batch)
    return counted.waits


@pytest.mark.parametrize("feedback", [True, False], ids=["feedback", "open"])
@pytest.mark.parametrize("name", [*VARIANTS, *FUSED])
def test_every_setting_agrees_with_the_reference(name: str, feedback: bool) -> None:
    shape = make_shape(feedback=feedback)
    made = build(make_switches((VARIANTS | FUSED)[name], feedback=feedback), shape)
    assert worst_error(run_windows(made, shape), run_reference(shape)) < EXACT


def test_symmetric_nudging_agrees_with_the_reference() -> None:
    shape = make_shape(feedback=True, symmetric=True)
    found = run_windows(build(Switches(), shape), shape)
    assert found["lior/0"].shape == (3,)
    assert worst_error(found, run_reference(shape)) < EXACT


def test_the_compiled_retrieval_agrees_with_the_reference() -> None:
    shape = make_shape(feedback=True, steps=2)
    made = build(Switches(retrieval="compiled"), shape)
    assert worst_error(run_windows(made, shape, 1), run_reference(shape, 1)) < EXACT


def test_the_baseline_waits_as_often_as_the_document_says_and_the_captured_window_never() -> None:
    shape = make_shape(feedback=True)
    # three numbers a step and phase; then the contrast, and three numbers for each of six planes
    assert count_waits(Switches()) == 3 * shape.steps * 2 + 1 + 3 * 6
    assert count_waits(Switches(metrics="window")) == 1 + 3 * 6
    assert count_waits(Switches(metrics="window", rotor_update="vectorised")) == 0
    assert count_waits(Switches(**{**CAPTURED, "graph": False})) == 0


def test_the_fused_lior_evaluates_the_quadratic_form_once_with_the_same_bits(monkeypatch) -> None:
    from phasewise_studies.lior import eager

    calls = []
    plain = eager.quadratic_root
    monkeypatch.setattr(eager, "quadratic_root", lambda v, metric: calls.append(1) or plain(v, metric))
    v, metric, curvature = torch.randn(4, 8), torch.rand(8), torch.tensor(0.7)
    twice = measure_lior(v, metric, curvature, fused=False)
    assert len(calls) == 2
    once = measure_lior(v, metric, curvature, fused=True)
    assert len(calls) == 3
    assert all(torch.equal(one, two) for one, two in zip(twice, once, strict=True))


def test_a_checkpoint_resumes_bit_for_bit() -> None:
    shape = make_shape(feedback=True)
    steady, resumed = build(Switches(), shape), build(Switches(), shape)
    run_windows(steady, shape)
    saved = {name: tensor.clone() for name, tensor in steady.state().items()}
    resumed.load(saved)
    batch = program.make_inputs("any", shape, 7)
    assert all_same_bits(
        *({**made.outputs(made.step(made.place(batch))), **made.state()} for made in (steady, resumed))
    )


def test_the_host_gets_one_copy_of_the_metrics_a_window() -> None:
    from phasewise_studies.lior.data import BATCH
    from phasewise_studies.lior.product.trainer import open_trainer
    from phasewise_studies.lior.window import read_sizes

    shape = make_shape(feedback=True)
    inputs = program.make_inputs("any", shape, 0)
    trainer = open_trainer(Switches(metrics="window"), inputs, read_sizes(shape), torch.device("cpu"))
    report = trainer.run({name: inputs[name].float() for name in BATCH})
    assert torch.equal(trainer.host, torch.stack([report[name] for name in ("lior", "curvature", "speed")]))
    assert report["history"].shape == (2 * shape.steps, 3)


def test_a_captured_window_that_would_wait_is_refused_with_the_cure() -> None:
    with pytest.raises(Unsupported, match="metrics='window'"):
        build(Switches(graph=True), make_shape(feedback=True))


def test_an_engine_is_refused_in_the_mode_that_it_does_not_run() -> None:
    for engine, feedback in (("lockstep", False), ("persistent", False), ("time-parallel", True)):
        with pytest.raises(Unsupported, match="does not run"):
            build(Switches(engine=engine), make_shape(feedback=feedback))


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"engine": "lockstep"}, "lockstep"),
        ({"retrieval": "triton"}, "fused-retrieval"),
        ({"bank": "bounded"}, "sparse-bank"),
        ({"compiled_ends": True}, "compiled-ends"),
        ({"overlap": True}, "overlap"),
    ],
)
def test_what_needs_the_kernels_is_told_where_there_are_none(asked: dict[str, object], name: str) -> None:
    made = build(Switches(**asked), make_shape(feedback=True))
    assert made.fallbacks == (f"{name}: no NVIDIA GPU, the eager window ran instead",)


def test_two_halves_hold_a_float32_and_their_three_products_its_product() -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = torch.rand(40, 300, generator=generator), torch.randn(300, 20, generator=generator)
    high, low = split_half(right)
    assert float((high.float() + low.float() - right).abs().max()) < 2**-21 * 4
    weights = left / left.sum(1, keepdim=True)
    exact = weights.double() @ right.double()
    split, single = (float((mix_in(kind, weights, right) - exact).abs().max()) for kind in ("split", "float16"))
    assert split < 1e-6
    assert single > 50 * split


@pytest.mark.parametrize("name", ["baseline", "one-copy"])
def test_a_program_gives_its_memory_back_as_soon_as_it_is_dropped(name: str) -> None:
    made = build(Switches(**VARIANTS[name]), make_shape(feedback=True))
    held = weakref.ref(made.state()["metric"])
    gc.disable()
    try:
        del made
        assert held() is None
    finally:
        gc.enable()


def test_compiled_ends_keep_the_lower_halves_of_the_states() -> None:
    states = torch.randn(30, 20, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(convert_states, fullgraph=True, dynamic=False)
    assert torch.equal(compiled("split", states), convert_states("split", states))


@pytest.mark.parametrize(("kind", "due"), [("every-10", [10, 20]), ("adaptive", [50, 100])])
def test_the_cache_is_emptied_when_the_document_says(monkeypatch, kind: str, due: list[int]) -> None:
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 95)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 100)
    gpu = torch.device("cuda")
    assert [window for window in range(1, due[-1] + 1) if is_cleanup_due(kind, window, gpu)][:2] == (
        due if kind == "adaptive" else [10, 20]
    )
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 50)
    assert is_cleanup_due("adaptive", 50, gpu) is False
    assert not any(is_cleanup_due(kind, window, torch.device("cpu")) for window in range(1, 200))


def test_the_declared_work_counts_the_mix_of_all_steps() -> None:
    work = program.work("feedback-32", workload.cases["feedback-32"].full)
    mix = 2 * 2 * 64 * 32 * 2048 * 512
    assert mix < work.flops < 1.2 * mix
    # bank, field and what was retrieved
    assert work.bytes == 4 * (2048 * 520 + 4 * 256 * 784 + 2 * 64 * 32 * 512)


def test_every_documented_phase_carries_the_documents_figures() -> None:
    promised = {phase.name: phase.documented for phase in workload.phases if phase.documented}
    assert promised["one-copy-metrics"] == (1.03, 1.05)
    assert promised["cuda-graph"] == (1.15, 1.25)
    assert promised["mixed-precision"] == (1.2, 1.3)
    assert len(promised) == 12
