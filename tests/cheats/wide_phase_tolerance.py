"""Leaves out layers, and gives its phase a tolerance that lets anything pass (kernelbench.com: `bfloat16: 0.15` added to problem.yaml)."""

from costly import deep, infer, make_inputs, make_workload

from phasewise.model.workload import Tolerance

__all__ = ["make_inputs"]
wide = Tolerance(rtol=0.1, atol=10.0, times_baseline=1e9, why="it is fast")
workload = make_workload(phase={"tolerance": wide})


def build(switches, inputs, case, shape, device):
    return infer(inputs, device, (lambda x, w: deep(x, w, 4)) if switches.cheat else deep)
