from __future__ import annotations

import pytest
import torch

from phasewise.kit.accumulate import accumulate, split
from phasewise.kit.amp import AmpStep


def make(dtype: torch.dtype, **options: float) -> tuple[torch.nn.Module, AmpStep]:
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return model, AmpStep(torch.optim.SGD(model.parameters(), lr=0.01), device="cpu", dtype=dtype, **options)


def loss_of(model: torch.nn.Module, x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    return model(x).float().square().mean() * factor


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_step_moves_the_parameters_and_keeps_them_in_float32(dtype: torch.dtype) -> None:
    model, step = make(dtype)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    x = torch.rand(3, 5, 16)
    value = step(lambda: loss_of(model, x))
    assert value.dtype is torch.float32 and not value.requires_grad and 0 < float(value) < 10
    assert all(parameter.dtype is torch.float32 for parameter in model.parameters())
    moved = [not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    assert sum(moved) > len(moved) // 2
    assert step.overflows == 0


def test_the_gradients_of_a_scaled_step_are_those_of_float32_to_half_precision() -> None:
    x, wanted = torch.rand(3, 5, 16), torch.rand(3, 5, 16)
    gradients = {}
    for dtype in (torch.float32, torch.float16):
        model, step = make(dtype)
        step(lambda model=model: (model(x).float() - wanted).square().mean())
        gradients[dtype] = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    gap = (gradients[torch.float16] - gradients[torch.float32]).norm() / gradients[torch.float32].norm()
    # float16 rounds at 5e-4; a forgotten unscaling would be off by 65536
    assert gap < 0.01


def test_an_overflow_skips_the_step_is_counted_and_halves_the_scale() -> None:
    model, step = make(torch.float16)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    x = torch.rand(3, 5, 16)
    step(lambda: loss_of(model, x, factor=1e37))
    assert step.overflows == 1
    assert float(step.state_dict()["scale"]) == 2.0**15
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    step(lambda: loss_of(model, x))
    assert step.overflows == 1
    assert not torch.equal(before[0], next(model.parameters()))


def test_the_scaler_resumes_where_it_was() -> None:
    model, step = make(torch.float16, growth_interval=5)
    x = torch.rand(3, 5, 16)
    for factor in (1.0, 1e37, 1.0, 1.0):
        step(lambda factor=factor: loss_of(model, x, factor))
    saved = step.state_dict()
    assert {name: float(value) for name, value in saved.items()} == {
        "scale": 2.0**15,
        "growth_tracker": 2.0,
        "overflows": 1.0,
    }
    other_model, other = make(torch.float16, growth_interval=5)
    other.load_state_dict(saved)
    assert other.state_dict() == saved
    for _ in range(3):
        other(lambda: loss_of(other_model, x))
    assert float(other.state_dict()["scale"]) == 2.0**16


def test_clipping_acts_on_unscaled_gradients() -> None:
    model, step = make(torch.float16, max_norm=1e-3)
    x = torch.rand(3, 5, 16)
    before = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    step(lambda: loss_of(model, x))
    after = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    assert float((after - before).norm()) == pytest.approx(0.01 * 1e-3, rel=0.05)


def test_the_length_of_the_gradients_before_clipping_is_kept() -> None:
    model, step = make(torch.float32, max_norm=1e-3)
    step(lambda: loss_of(model, torch.rand(3, 5, 16)))
    after = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).norm()
    assert float(step.norm) > 1e-2 and float(after) == pytest.approx(1e-3, rel=1e-3)


def test_four_micro_batches_of_five_rows_are_one_batch_of_twenty() -> None:
    x = torch.rand(20, 5, 16, generator=torch.Generator().manual_seed(1))
    ends = []
    for size in (20, 5):
        model, step = make(torch.bfloat16, max_norm=0.5)
        step.optimizer.zero_grad()
        losses = []

        def loss(part, model=model, step=step, losses=losses):
            with step.autocast():
                losses.append(len(part["x"]))
                return loss_of(model, part["x"])

        accumulate(split({"x": x}, size), loss, backward=step.scale_backward)
        step.update()
        assert losses == [size] * (20 // size)
        ends.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    # bfloat16 rounds activations alike in both; only sums over rows come in another order
    assert float((ends[0] - ends[1]).norm() / ends[0].norm()) < 1e-4
