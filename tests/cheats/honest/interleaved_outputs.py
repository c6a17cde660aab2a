"""Hands out two outputs that are every other column of one buffer: views that share memory and no element."""

from costly import deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)

    def step(x):
        y = deep(x, w)
        even, odd = y[:, ::2], y[:, 1::2]
        return {"even": even, "odd": odd} if switches.cheat else {"even": even.clone(), "odd": odd.clone()}

    return infer(inputs, device, step=step)
