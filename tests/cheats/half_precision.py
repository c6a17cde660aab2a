"""Computes in float16 and hands out float32; a relaxed tier alone would let it through."""

from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return infer((lambda x, w: layer(x.half(), w.half()).float()) if switches.cheat else layer, inputs)
