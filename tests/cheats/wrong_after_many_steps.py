"""Right for as long as a gate usually looks."""

from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()
PATIENCE = 40


def build(switches, inputs, case, shape, device):
    calls = [0]

    def tire(x, w):
        calls[0] += 1
        return layer(x, w) * (1.5 if calls[0] > PATIENCE else 1.0)

    return infer(tire if switches.cheat else layer, inputs)
