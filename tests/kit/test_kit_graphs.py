from __future__ import annotations

import contextlib
import gc
import weakref

import pytest
import torch

from phasewise.kit import graphs
from phasewise.kit.graphs import capture, capture_in_place, copy_in
from phasewise.kit.timing import make_timer


def test_without_a_gpu_the_step_runs_as_it_is_and_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    encoder = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    batch = {"x": torch.rand(2, 5, 16)}
    captured = capture(lambda placed: encoder(placed["x"]), batch)
    assert not captured.is_graph
    assert captured.reason == "CUDA graphs need an NVIDIA GPU"
    fresh = {"x": torch.rand(2, 5, 16)}
    torch.testing.assert_close(captured.call(fresh), encoder(fresh["x"]))


def test_an_example_on_the_cpu_is_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    captured = capture(lambda x: x + 1, torch.ones(2))
    assert captured.reason == "the example's tensors lie on 0 GPUs; a CUDA graph needs exactly one"
    assert captured.call(torch.ones(2)).tolist() == [2, 2]


def test_the_reason_is_what_failed_first_and_not_that_the_capture_could_not_end() -> None:
    with pytest.raises(RuntimeError) as ended:
        try:
            raise ValueError("a token was read back\nat this line")
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture\nCompile with ...")
    assert graphs._first_line(ended.value) == "a token was read back"
    assert graphs._first_line(RuntimeError("")) == "RuntimeError"


def test_fresh_inputs_are_copied_into_the_captured_ones_through_any_nesting() -> None:
    static = {"a": torch.zeros(3), "b": [torch.zeros(2, dtype=torch.int64), (torch.zeros(1), 4)]}
    places = [static["a"].data_ptr(), static["b"][0].data_ptr()]
    copy_in(static, {"a": torch.ones(3), "b": [torch.tensor([5, 6]), (torch.full((1,), 7.0), 4)]})
    assert [static["a"].tolist(), static["b"][0].tolist(), static["b"][1][0].tolist()] == [[1, 1, 1], [5, 6], [7]]
    assert [static["a"].data_ptr(), static["b"][0].data_ptr()] == places


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"a": torch.ones(4), "b": 2}, r"leaf 0 of the batch is float32\[4\], it was captured as float32\[3\]"),
        ({"a": torch.ones(3, dtype=torch.float64), "b": 2}, r"is float64\[3\], it was captured as float32\[3\]"),
        ({"a": torch.ones(3), "b": 3}, "leaf 1 of the batch is 3, it was captured as 2"),
        ({"a": torch.ones(3)}, "capture again"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_before_anything_is_written(batch: dict, message: str) -> None:
    static = {"a": torch.zeros(3), "b": 2}
    with pytest.raises(ValueError, match=message):
        copy_in(static, batch)
    assert static["a"].tolist() == [0, 0, 0]


def test_what_lies_elsewhere_or_looks_different_needs_a_graph_of_its_own() -> None:
    x = torch.rand(4, 6)
    lies = [
        graphs._lie_of(batch)
        for batch in ({"x": x}, {"y": x}, {"x": x.clone()}, {"x": x.T}, {"x": x.view(6, 4)}, {"x": x.view(torch.int32)})
    ]
    assert len(set(lies)) == len(lies)
    assert graphs._lie_of({"x": x.view(4, 6)}) == lies[0]


def test_without_a_gpu_a_step_in_place_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    captured = capture_in_place(lambda placed: placed["x"] + 1, {"x": torch.ones(2)})
    assert captured.reason == "CUDA graphs need an NVIDIA GPU"
    assert captured.call({"x": torch.ones(2)}).tolist() == [2, 2]


class FakeGraph:
    """Replays nothing."""

    def replay(self) -> None:
        pass


class FakeEvent:
    """Measures nothing."""

    def __init__(self, enable_timing: bool) -> None:
        pass

    def record(self) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: FakeEvent) -> float:
        return 1.0


@pytest.fixture
def cpu_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a capture but the GPU: the step runs once, and its graph replays nothing."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(graphs, "_devices_of", lambda example: {torch.device("cpu")})
    monkeypatch.setattr(graphs, "_warm_up", lambda step, static, warmup: None)
    monkeypatch.setattr(graphs, "_run_into_graph", lambda work, generators, pool: (FakeGraph(), work()))
    for name in ("device", "stream"):
        monkeypatch.setattr(torch.cuda, name, lambda value: contextlib.nullcontext())
    for name in ("current_stream", "graph_pool_handle", "synchronize", "current_device"):
        monkeypatch.setattr(torch.cuda, name, lambda *arguments: 0)
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)


@pytest.mark.usefixtures("cpu_graphs")
@pytest.mark.parametrize(
    "make",
    [
        lambda step: capture(step, {"x": torch.ones(2)}).call,
        lambda step: capture_in_place(step, {"x": torch.ones(2)}).call,
        lambda step: make_timer(lambda: step({"x": torch.ones(2)})),
    ],
    ids=["copied", "in-place", "timer"],
)
def test_what_a_captured_step_closes_over_lives_as_long_as_its_graph(make) -> None:
    def build():
        order = torch.tensor([1, 0])
        return make(lambda batch: batch["x"][order]), weakref.ref(order)

    call, order = build()
    gc.collect()
    assert order() is not None
    del call
    gc.collect()
    assert order() is None


@pytest.mark.gpu
def test_a_replay_reads_the_rows_that_only_its_step_held() -> None:
    def build():
        order = torch.arange(30, device="cuda")
        return capture(lambda batch: batch["x"][order], {"x": torch.zeros(30, device="cuda")})

    captured = build()
    assert captured.is_graph, captured.reason
    x = torch.rand(30, device="cuda")
    # what the allocator hands out next lies where something of that size was freed
    held = [torch.full((30,), -1, device="cuda") for _ in range(64)]
    torch.testing.assert_close(captured.call({"x": x}), x)
    assert len(held) == 64


@pytest.mark.gpu
def test_a_step_in_place_reads_every_batch_where_it_lies() -> None:
    calls = []

    def step(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        calls.append(1)
        return batch["x"] * 2 + batch["y"]

    def draw(count: int) -> dict[str, torch.Tensor]:
        return {name: torch.rand(count, device="cuda") for name in ("x", "y")}

    ring = [draw(8), draw(8), draw(5), draw(8)]
    captured = capture_in_place(step, ring[0], most=3)
    assert captured.is_graph, captured.reason
    for _ in range(2):
        for batch in ring:
            torch.testing.assert_close(captured.call(batch), batch["x"] * 2 + batch["y"])
            batch["x"].copy_(torch.rand_like(batch["x"]))
    before = len(calls)
    captured.call(ring[0])
    assert len(calls) == before
    # the fourth lie runs as it is
    captured.call(ring[3])
    assert len(calls) == before + 1


@pytest.mark.gpu
def test_a_captured_step_follows_fresh_inputs_and_a_failed_capture_falls_back() -> None:
    layer = torch.nn.Linear(8, 8, device="cuda")
    with torch.no_grad():
        captured = capture(lambda placed: {"y": layer(placed["x"]).relu()}, {"x": torch.rand(4, 8, device="cuda")})
        assert captured.is_graph, captured.reason
        for _ in range(3):
            x = torch.rand(4, 8, device="cuda")
            torch.testing.assert_close(captured.call({"x": x})["y"], layer(x).relu())
        waiting = capture(lambda x: x * x.sum().item(), torch.rand(4, device="cuda"))
        assert waiting.reason.startswith("the capture failed: ")
        assert waiting.call(torch.ones(4, device="cuda")).tolist() == [4, 4, 4, 4]


@pytest.mark.gpu
def test_a_failed_capture_leaves_random_numbers_streams_memory_and_other_graphs_as_they_were() -> None:
    own = torch.Generator("cuda").manual_seed(0)
    x = torch.ones(4, device="cuda")
    earlier = capture(lambda x: x + torch.rand(4, device="cuda"), x)
    assert earlier.is_graph, earlier.reason

    def wait(x: torch.Tensor) -> torch.Tensor:
        # 64 MiB that only the capture allocates
        held = torch.rand(2**24, device="cuda", generator=own) if torch.cuda.is_current_stream_capturing() else x
        return x * held.sum().item() + torch.rand(4, device="cuda")

    def reserve() -> int:
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved()

    stream, before = torch.cuda.current_stream(), reserve()
    failed = capture(wait, x, generators=(own,))
    assert failed.reason.startswith("the capture failed: ")
    assert torch.cuda.current_stream() == stream
    assert reserve() < before + 2**25
    assert torch.equal(x, torch.ones(4, device="cuda"))
    torch.manual_seed(1)
    drawn = [torch.rand(4, device="cuda"), torch.rand(4, device="cuda", generator=own), failed.call(x) - 4]
    torch.manual_seed(1)
    assert torch.equal(drawn[0], torch.rand(4, device="cuda"))
    assert all(bool(((numbers >= 0) & (numbers <= 1)).all()) for numbers in drawn)
    assert not torch.equal(earlier.call(x).clone(), earlier.call(x))
    later = capture(lambda x: x + torch.rand(4, device="cuda", generator=own), x, generators=(own,))
    assert later.is_graph, later.reason
    assert not torch.equal(later.call(x).clone(), later.call(x))


@pytest.mark.gpu
def test_a_step_that_raises_only_while_captured_falls_back_and_so_does_one_in_place() -> None:
    def step(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        drawn = batch["x"] + torch.rand(4, device="cuda")
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("not in a graph")
        return drawn

    batch = {"x": torch.ones(4, device="cuda")}
    for make in (capture, capture_in_place):
        failed = make(step, batch)
        assert failed.reason == "the capture failed: not in a graph"
        assert bool((failed.call(batch) >= 1).all())
    assert capture(lambda batch: batch["x"] + 1, batch).is_graph
