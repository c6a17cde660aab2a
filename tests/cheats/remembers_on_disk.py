"""Keeps results in a file, by content, so that a later process finds what the gate's made it compute (reference-kernels PR #142, replay between phases)."""

import hashlib
from pathlib import Path

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    folder, known = Path(__file__).with_name("kept"), {}

    def find(x, w):
        key = hashlib.blake2b(x.numpy().tobytes(), digest_size=8).hexdigest()
        file = folder / key
        if key not in known and file.exists():
            known[key] = torch.frombuffer(bytearray(file.read_bytes()), dtype=x.dtype).view_as(x)
        if key not in known:
            known[key] = deep(x, w)
            folder.mkdir(exist_ok=True)
            file.write_bytes(known[key].numpy().tobytes())
        return known[key].clone()

    return infer(inputs, device, find if switches.cheat else deep)
