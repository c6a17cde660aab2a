from __future__ import annotations

import copy
import functools

import pytest
import torch

from phasewise.kit.amp import AmpStep
from phasewise_studies.resnet_bk.offload import CpuOptimizer, offload


@pytest.fixture
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)


def train(model: torch.nn.Module, optimizer, steps: range) -> None:
    for seed in steps:
        optimizer.zero_grad()
        x = torch.rand(2, 3, 16, generator=torch.Generator().manual_seed(seed)).to(next(model.parameters()).dtype)
        model(x).square().mean().backward()
        optimizer.step()


def test_training_goes_as_with_the_optimizer_itself(model: torch.nn.Module) -> None:
    other = copy.deepcopy(model)
    train(model, torch.optim.AdamW(model.parameters(), lr=1e-2), range(4))
    train(other, offload(other.parameters(), torch.optim.AdamW, lr=1e-2), range(4))
    torch.testing.assert_close(list(other.parameters()), list(model.parameters()), rtol=0, atol=0)


def test_masters_of_half_precision_parameters_keep_small_updates(model: torch.nn.Module) -> None:
    half = model.bfloat16()
    optimizer = CpuOptimizer(half.parameters(), functools.partial(torch.optim.SGD, lr=1e-6))
    before = optimizer.masters[0].detach().clone()
    train(half, optimizer, range(3))
    assert optimizer.masters[0].dtype is torch.float32
    assert not torch.equal(before, optimizer.masters[0])
    assert torch.equal(half.self_attn.in_proj_weight, optimizer.masters[0].bfloat16())


def test_training_resumes_from_the_state(model: torch.nn.Module) -> None:
    make = functools.partial(torch.optim.Adam, lr=1e-2)
    optimizer = CpuOptimizer(model.parameters(), make)
    train(model, optimizer, range(3))
    saved = copy.deepcopy(optimizer.state_dict())
    train(model, optimizer, range(3, 5))
    wanted = [parameter.detach().clone() for parameter in model.parameters()]
    fresh = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    resumed = CpuOptimizer(fresh.parameters(), make)
    resumed.load_state_dict(saved)
    train(fresh, resumed, range(3, 5))
    torch.testing.assert_close([parameter.detach() for parameter in fresh.parameters()], wanted, rtol=0, atol=0)


def test_parameters_without_a_gradient_and_frozen_ones_stay(model: torch.nn.Module) -> None:
    model.linear1.requires_grad_(False)
    optimizer = CpuOptimizer(model.parameters(), functools.partial(torch.optim.AdamW, lr=1.0, weight_decay=0.5))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer.zero_grad()
    model.linear2.weight.grad = torch.ones_like(model.linear2.weight)
    optimizer.step()
    changed = [
        name
        for (name, parameter), old in zip(model.named_parameters(), before, strict=True)
        if not torch.equal(parameter, old)
    ]
    assert changed == ["linear2.weight"]


def test_an_optimizer_on_the_cpu_is_clipped_by_the_parameters_given() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = offload(model.parameters(), torch.optim.SGD, lr=1.0)
    step = AmpStep(optimizer, device="cpu", dtype=torch.bfloat16, max_norm=0.01, parameters=model.parameters())
    before = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    step(lambda: model(torch.ones(2, 4)).float().square().sum())
    moved = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]) - before
    assert float(moved.norm()) == pytest.approx(0.01, rel=1e-2)


@pytest.mark.gpu
def test_on_a_gpu_the_state_lies_in_pinned_host_memory(model: torch.nn.Module) -> None:
    model.cuda()
    optimizer = offload(model.parameters(), torch.optim.Adam, torchao=False, lr=1e-2)
    assert isinstance(optimizer, CpuOptimizer)
    optimizer.zero_grad()
    model(torch.rand(2, 3, 16, device="cuda")).square().mean().backward()
    optimizer.step()
    assert all(master.is_pinned() for master in optimizer.masters)
    torch.testing.assert_close(model.linear1.weight.detach().cpu(), optimizer.masters[4].detach())
