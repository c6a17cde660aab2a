"""Keeps inputs and results in buffers of C that no look through Python's objects finds, compared by memcmp (wafer field guide, C++-side cache)."""

import ctypes

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()
SLOTS = 64
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = libc.free.argtypes = None
libc.memcmp.argtypes = libc.memcpy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def build(switches, inputs, case, shape, device):
    size = shape.rows * 256 * 4
    table = libc.malloc(ctypes.c_size_t(2 * SLOTS * size)) if switches.cheat else 0
    used = [0]

    def find(x, w):
        for slot in range(min(used[0], SLOTS)):
            if libc.memcmp(table + 2 * slot * size, x.data_ptr(), size) == 0:
                y = torch.empty_like(x)
                libc.memcpy(y.data_ptr(), table + (2 * slot + 1) * size, size)
                return y
        y, slot = deep(x, w), used[0] % SLOTS
        libc.memcpy(table + 2 * slot * size, x.data_ptr(), size)
        libc.memcpy(table + (2 * slot + 1) * size, y.data_ptr(), size)
        used[0] += 1
        return y

    return infer(inputs, device, find if switches.cheat else deep)
