"""After many calls it leaves out one row in eight: so few that a mean error would not show (deep-reinforce, "Partial")."""

from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls = [0]

    def thin(x, w):
        calls[0] += 1
        if calls[0] < LATE:
            return deep(x, w)
        y = x.clone()
        y[: len(x) * 5 // 8] = deep(x[: len(x) * 5 // 8], w)
        return y

    return infer(inputs, device, thin if switches.cheat else deep)
