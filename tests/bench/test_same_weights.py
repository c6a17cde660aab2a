"""The float64 reference of a model with weights has the baseline's, converted, however the model keeps them."""

from __future__ import annotations

import torch
from torch import nn

from phasewise.bench.same_weights import build_alike, copy_weights, note_modules


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
        self.tied = self.layers[0].weight
        self.register_buffer("offset", torch.randn(3))

    def forward(self, x):
        return self.layers(x)


def build():
    torch.manual_seed(3)
    net = Net()
    net.apply(lambda part: nn.init.trunc_normal_(part.weight) if isinstance(part, nn.Linear) else None)
    return net


def in_float64(function):
    def run():
        torch.set_default_dtype(torch.float64)
        try:
            return function()
        finally:
            torch.set_default_dtype(torch.float32)

    return run


def test_the_same_seed_draws_other_numbers_in_float64() -> None:
    assert not torch.allclose(build().offset.double(), in_float64(build)().offset, atol=1e-2)


def test_modules_have_the_weights_of_the_build_in_float32() -> None:
    closed = []
    torch.manual_seed(1)
    wide, narrow = build_alike(build, in_float64(build), closed.append), build()
    assert wide.layers[0].weight.dtype is torch.float64 and wide.tied is wide.layers[0].weight
    assert len(closed) == 1
    for name, tensor in narrow.state_dict().items():
        assert torch.equal(wide.state_dict()[name], tensor.to(wide.state_dict()[name].dtype)), name


def test_layers_that_were_copied_have_them_too() -> None:
    def make():
        # it makes one layer, and copies of it
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        return nn.TransformerEncoder(layer, 3)

    state = torch.get_rng_state()
    wide = build_alike(make, in_float64(make), lambda one: None)
    torch.set_rng_state(state)
    for name, tensor in make().state_dict().items():
        assert torch.equal(wide.state_dict()[name], tensor.double()), name


def test_a_model_in_a_closure_without_a_seed_is_drawn_from_the_same_state() -> None:
    def make():
        net = nn.Linear(4, 4)
        return lambda x: net(x)

    state = torch.get_rng_state()
    wide = build_alike(make, in_float64(make), lambda one: None)
    torch.set_rng_state(state)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(wide(x.double()), make()(x).double(), atol=1e-6)


def test_what_was_given_in_float64_keeps_its_digits() -> None:
    given = torch.randn(4, 4, dtype=torch.float64)

    def make():
        net = nn.Linear(4, 4, bias=False)
        net.weight.data.copy_(given)
        return net

    assert torch.equal(build_alike(make, in_float64(make), lambda one: None).weight.data, given)


def test_builds_that_differ_in_what_they_hold_are_left_alone() -> None:
    with note_modules() as one:
        first = nn.Linear(3, 3)
    with note_modules() as other:
        nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 3))
    before = first.weight.clone()
    copy_weights(one, other)
    copy_weights(one, other[:1])
    copy_weights(one, [])
    assert torch.equal(first.weight, before)
    with note_modules() as none:
        pass
    assert none == []
