"""One element in 64 is off by a thousandth."""

from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    def slip(x, w):
        y = layer(x, w)
        y[3, 2] += 1e-3
        return y

    return infer(slip if switches.cheat else layer, inputs)
