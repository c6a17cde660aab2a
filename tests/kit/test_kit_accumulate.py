from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch

from phasewise.kit.accumulate import accumulate, split


def gradients(model: torch.nn.Module) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@pytest.fixture
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).double()


def make_batch(rows: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        "x": torch.rand(rows, 3, 16, dtype=torch.float64, generator=generator),
        "y": torch.rand(rows, 3, 16, dtype=torch.float64, generator=generator),
    }


@pytest.mark.parametrize(("rows", "sizes"), [(20, [5, 5, 5, 5]), (18, [5, 5, 5, 3]), (4, [4]), (6, [5, 1])])
def test_accumulated_gradients_are_those_of_one_pass(model: torch.nn.Module, rows: int, sizes: list[int]) -> None:
    def loss(batch):
        return torch.nn.functional.mse_loss(model(batch["x"]), batch["y"])

    batch = make_batch(rows)
    whole = loss(batch)
    whole.backward()
    wanted = gradients(model)
    model.zero_grad()
    parts = list(split(batch, 5))
    assert [len(part["x"]) for part in parts] == sizes
    found = accumulate(parts, loss)
    torch.testing.assert_close(found, whole.detach())
    assert not found.requires_grad
    torch.testing.assert_close(gradients(model), wanted)


def test_a_scaler_can_stand_between_loss_and_gradient(model: torch.nn.Module) -> None:
    parts = list(split(make_batch(7), 3))

    def loss(batch):
        return model(batch["x"]).square().mean()

    accumulate(parts, loss)
    plain = gradients(model)
    model.zero_grad()
    accumulate(parts, loss, backward=lambda value: (value * 8).backward())
    torch.testing.assert_close(gradients(model), [gradient * 8 for gradient in plain])


def test_replicas_exchange_their_gradients_with_the_last_part_only() -> None:
    class Replica(torch.nn.Linear):
        quiet = False
        seen: tuple[bool, ...] = ()

        @contextlib.contextmanager
        def no_sync(self) -> Iterator[None]:
            self.quiet = True
            yield
            self.quiet = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = (*self.seen, self.quiet)
            return super().forward(x)

    replica = Replica(2, 2)
    accumulate(split({"x": torch.rand(5, 2)}, 2), lambda part: replica(part["x"]).mean(), replicas=[replica])
    assert replica.seen == (True, True, False)


def test_batches_that_cannot_be_split_say_why() -> None:
    with pytest.raises(ValueError, match="micro-batch size is 0; use at least 1"):
        list(split({"x": torch.rand(3)}, 0))
    with pytest.raises(ValueError, match=r"same number of rows, found \{'x': 3, 'y': 2\}"):
        list(split({"x": torch.rand(3), "y": torch.rand(2)}, 1))
    with pytest.raises(ValueError, match="no micro-batch"):
        accumulate([], lambda part: part["x"].mean())
