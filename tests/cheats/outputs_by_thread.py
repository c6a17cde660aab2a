"""Has a thread compute in `outputs`, which is not timed: a mode of torch sees its own thread alone."""

from concurrent.futures import ThreadPoolExecutor

from costly import deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    if not switches.cheat:
        return infer(inputs, device)
    w, pool = place_weight(inputs, device), ThreadPoolExecutor(1)

    def outputs(x):
        return {"y": pool.submit(deep, x, w).result()}

    return infer(inputs, device, step=lambda x: x.clone(), outputs=outputs, close=pool.shutdown)
