"""Hands out a mapping that computes a value when it is read (KernelGuard LAZY_TENSOR; KernelGYM "lazy optimization")."""

from collections.abc import Mapping

from costly import deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


class Lazy(Mapping):
    def __init__(self, work):
        self.work, self.value = work, None

    def __getitem__(self, name):
        if self.value is None:
            self.value = self.work()
        return self.value

    def __iter__(self):
        return iter(("y",))

    def __len__(self):
        return 1


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)
    hooks = {"step": lambda x: Lazy(lambda: deep(x, w))}
    return infer(inputs, device, **(hooks if switches.cheat else {}))
