from __future__ import annotations

import pytest
import torch

from phasewise.kit.regions import region


@region("whole")
def work(x: torch.Tensor) -> torch.Tensor:
    with region("inner"):
        return x.square().sum()


def test_regions_appear_in_a_profile_nested_and_at_every_call() -> None:
    encoder = torch.nn.TransformerEncoderLayer(16, 2, 32)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(2):
            work(encoder(torch.rand(3, 2, 16)))
    events = [event for event in profile.events() if event.name in ("whole", "inner")]
    assert sorted(event.name for event in events) == ["inner", "inner", "whole", "whole"]
    inner = [event for event in events if event.name == "inner"]
    assert all(event.cpu_parent is not None and event.cpu_parent.name == "whole" for event in inner)


def test_an_error_passes_through_and_closes_the_region() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        with pytest.raises(ValueError, match="inside"), region("failing"):
            raise ValueError("inside")
        with region("after"):
            torch.rand(2).sum()
    after = next(event for event in profile.events() if event.name == "after")
    assert after.cpu_parent is None


def test_nvtx_ranges_open_and_close_where_a_gpu_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    diary: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", diary.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: diary.append("pop"))
    work(torch.ones(3))
    assert diary == ["whole", "inner", "pop", "pop"]


def test_a_region_does_not_break_a_compiled_graph() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]):
        graphs.append(graph)
        return graph.forward

    def step(x: torch.Tensor) -> torch.Tensor:
        with region("compiled"):
            y = x * 2
        return y + 1

    assert torch.compile(step, backend=backend, fullgraph=True)(torch.ones(2)).tolist() == [3, 3]
    assert len(graphs) == 1
