"""Computes in bfloat16 in a phase whose tolerance is that of the relaxed tier, and says why."""

from costly import deep, infer, make_inputs, make_workload, place_weight

from phasewise.model.workload import Tolerance

__all__ = ["make_inputs"]
bound = Tolerance(rtol=5e-2, atol=5e-2, times_baseline=1e6, why="twelve layers of bfloat16 round at 2^-9 each")
workload = make_workload(phase={"tolerance": bound})


def build(switches, inputs, case, shape, device):
    narrow = place_weight(inputs, device).bfloat16()
    function = (lambda x, w: deep(x.bfloat16(), narrow).float()) if switches.cheat else deep
    return infer(inputs, device, function)
