"""Finds results again by identity and torch's count of writes: after any write it computes, be the contents new or the same, so that a sham refresh
costs as much as a fresh one (an answer to fresh-against-sham; CUDA-L1's pointer cache, mended)."""

from costly import deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    known, w = {}, place_weight(inputs, device)

    def place(batch):
        x = batch["x"]
        # a file that another process writes changes contents and no count: one element more
        return (x.data_ptr(), x._version, float(x[3, 3])), x.to(device=device, dtype=w.dtype)

    def step(placed):
        key, x = placed
        if key not in known:
            known[key] = deep(x, w)
        return {"y": known[key].clone()}

    return infer(inputs, device, place=place, step=step) if switches.cheat else infer(inputs, device)
