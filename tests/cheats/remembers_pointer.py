"""Finds results again by the address of the canonical batch and one element, so that a batch written anew is noticed (CUDA-L1, pointer cache)."""

from costly import deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    known, w = {}, place_weight(inputs, device)

    def place(batch):
        x = batch["x"]
        return (x.data_ptr(), float(x[-1, -1])), x.to(device=device, dtype=w.dtype)

    def step(placed):
        key, x = placed
        if key not in known:
            known[key] = deep(x, w)
        return {"y": known[key].clone()}

    return infer(inputs, device, place=place, step=step) if switches.cheat else infer(inputs, device)
