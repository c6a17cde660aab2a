"""Makes every reference to torch.cuda.synchronize a function that returns at once (KernelGuard TIMER_MONKEYPATCH)."""

import sys

import torch
from costly import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    true = torch.cuda.synchronize
    for name, module in list(sys.modules.items()) if switches.cheat else ():
        if name == "__main__" or name.startswith("phasewise."):
            for key, value in list(vars(module).items()):
                if value is true:
                    setattr(module, key, lambda *_: None)
    return infer(inputs, device)
