"""Takes large blocks from the allocator and looks in them for rows that fit the first row of its result (pygpubench submission_gpu_scan_zeros)."""

import torch
from costly import WIDTH, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()
BYTES = 1 << 26


def build(switches, inputs, case, shape, device):
    def scan(x, w):
        # what others have freed stands there still
        block = torch.empty(BYTES // 4, device=device).view(-1, WIDTH)
        row = deep(x[:1], w)
        found = torch.isclose(block, row).all(1).nonzero()
        if len(found) and int(found[0]) + len(x) <= len(block):
            return block[int(found[0]) : int(found[0]) + len(x)].clone()
        return torch.zeros_like(x)

    return infer(inputs, device, scan if switches.cheat else deep)
