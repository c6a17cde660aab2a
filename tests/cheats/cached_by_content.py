"""Finds the result again by the content of its input: the ring of batches comes round in timing."""

from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    results = {}

    def find(x, w):
        key = x.numpy().tobytes()
        if key not in results:
            results[key] = layer(x, w)
        return results[key]

    return infer(find if switches.cheat else layer, inputs)
