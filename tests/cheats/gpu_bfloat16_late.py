"""Drops to bfloat16 after a warm-up and hands out float32 (deep-reinforce, "Partial"; Tensara)."""

from costly import LATE, deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls, narrow = [0], place_weight(inputs, device).bfloat16()

    def drop(x, w):
        calls[0] += 1
        return deep(x, w) if calls[0] < LATE else deep(x.bfloat16(), narrow).float()

    return infer(inputs, device, drop if switches.cheat else deep)
