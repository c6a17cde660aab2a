"""Finds the result again by the address of its input."""

from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    results = {}

    def find(x, w):
        if x.data_ptr() not in results:
            # the input is kept, so that its address stays its own
            results[x.data_ptr()] = x, layer(x, w)
        return results[x.data_ptr()][1].clone()

    return infer(find if switches.cheat else layer, inputs)
