import sys

import torch

from phasewise.profile.facts import Compiler, read_compiler


def test_without_the_compiler_there_is_nothing_to_count(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert read_compiler() == Compiler(graphs=0, breaks=0)


def test_recompilations_and_broken_graphs_are_counted():
    before = read_compiler()

    @torch.compile(backend="eager", dynamic=False)
    def work(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    work(torch.rand(4))
    first = read_compiler()
    work(torch.rand(4))
    assert read_compiler() == first
    work(torch.rand(5))
    second = read_compiler()
    # a graph on each side of the break, for each shape
    assert first.graphs - before.graphs == 2
    assert second.graphs - first.graphs == 2
    assert first.breaks - before.breaks >= 1
