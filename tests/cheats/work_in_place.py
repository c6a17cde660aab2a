"""Computes in `place`, which is not timed where inputs are resident; the step copies (issue B.5, untimed hooks; reference-kernels PR #142)."""

from costly import deep, infer, make_case, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload(make_case(inputs="resident"))


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)

    def place(batch):
        x = batch["x"].to(device=device, dtype=w.dtype)
        return {"x": x, "y": deep(x, w)}

    def step(placed):
        # follows new contents only as far as one element
        fresh = placed.setdefault("first", float(placed["x"][0, 0])) != float(placed["x"][0, 0])
        return {"y": deep(placed["x"], w) if fresh else placed["y"].clone()}

    return infer(inputs, device, place=place, step=step) if switches.cheat else infer(inputs, device)
