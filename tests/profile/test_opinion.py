import builtins

import pytest
from traces import kernel, make_trace, operator, region, sync

from phasewise.profile.opinion import ask_second_opinion, translate
from phasewise.profile.timeline import frame_steps
from phasewise.profile.trace import parse_trace

pytest.importorskip("torch_tb_profiler")


def ask(plain):
    trace = parse_trace(plain)
    return ask_second_opinion(plain, trace, frame_steps(trace))


def make_steps(busy):
    groups = []
    for start in (0, 100, 200, 300):
        groups += [
            operator("aten::mm", start, start + 20),
            kernel("gemm", start + 10, start + 10 + busy, launched=start + 5),
        ]
        groups += [sync(start + 31, start + 95)]
    return make_trace(*groups, steps=[(start, start + 100) for start in (0, 100, 200, 300)])


@pytest.mark.parametrize("busy", [10, 50, 90])
def test_both_parsers_see_the_same_kernel_time_in_a_synthetic_trace(busy):
    opinion = ask(make_steps(busy))
    assert opinion.available, opinion.reason
    assert opinion.parts["Kernel"] == pytest.approx(busy * 1e-6)
    assert opinion.disagreement == pytest.approx(0, abs=1e-6)


def test_without_the_adapter_it_reads_no_runtime_and_with_it_it_does():
    assert ask(make_steps(50)).parts["Runtime"] > 0
    renamed = translate(make_trace(region("enumerate(DataLoader)#x.__next__", 0, 5), kernel("gemm", 1, 2, launched=0)))
    categories = {event["name"]: event["cat"] for event in renamed["traceEvents"]}
    assert categories["cudaLaunchKernel"] == "Runtime"
    assert categories["enumerate(DataLoader)#x.__next__"] == "cpu_op"


def test_a_trace_that_it_cannot_read_or_that_is_too_long_is_a_reason(monkeypatch):
    assert ask(make_trace(steps=[])).reason
    monkeypatch.setattr("phasewise.profile.opinion.MOST_EVENTS", 3)
    opinion = ask(make_steps(50))
    assert not opinion.available
    assert "up to 3" in opinion.reason


def test_it_is_never_required(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **named):
        if name.startswith("torch_tb_profiler"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    opinion = ask(make_steps(50))
    assert (opinion.available, opinion.reason) == (False, "torch-tb-profiler is not installed")
