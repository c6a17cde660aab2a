"""After many calls it computes every other row, and copies it to its neighbour (KernelGuard INPUT_STRUCTURE_TRUNCATION_DISPATCH)."""

from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls = [0]

    def thin(x, w):
        calls[0] += 1
        return deep(x, w) if calls[0] < LATE else deep(x[::4], w).repeat_interleave(4, 0)

    return infer(inputs, device, thin if switches.cheat else deep)
