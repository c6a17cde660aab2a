"""Leaves out layers, and redefines the tier of the whole workload (kernelbench.com: edit the tolerance)."""

from costly import deep, infer, make_inputs, make_workload

from phasewise.model.workload import DEFAULT_TIERS, Tolerance

__all__ = ["make_inputs"]
wide = Tolerance(rtol=0.1, atol=10.0, times_baseline=1e9, why="it is fast")
workload = make_workload(tiers={**DEFAULT_TIERS, "moderate": wide})


def build(switches, inputs, case, shape, device):
    return infer(inputs, device, (lambda x, w: deep(x, w, 4)) if switches.cheat else deep)
