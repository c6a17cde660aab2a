from __future__ import annotations

import pytest
import torch

from phasewise_studies.resnet_bk.padding import (
    PaddedClasses,
    PaddedEmbedding,
    PaddedLinear,
    find_misaligned,
    pad,
    unpadded_state,
)


class Foreign(torch.nn.Module):
    """A model from elsewhere, with sizes that fit nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(101, 30, padding_idx=0)
        self.layer = torch.nn.TransformerEncoderLayer(30, 3, 50, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(30, 7, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.embed(tokens)))


@pytest.fixture
def model() -> Foreign:
    torch.manual_seed(0)
    return Foreign().double()


TOKENS = torch.tensor([[1, 5, 100, 0], [7, 7, 2, 3]])


def test_misaligned_layers_are_found_with_what_they_would_become(model: Foreign) -> None:
    found = {item.name: item for item in find_misaligned(model)}
    assert list(found) == ["embed", "layer.self_attn.out_proj", "layer.linear1", "layer.linear2", "head"]
    assert (found["head"].sizes, found["head"].padded) == ((7, 30), (8, 32))
    assert (found["embed"].sizes, found["embed"].padded, found["embed"].reason) == ((101, 30), (104, 32), "")
    assert found["layer.self_attn.out_proj"].reason.startswith("a NonDynamicallyQuantizableLinear may be used")
    assert find_misaligned(torch.nn.TransformerEncoderLayer(32, 4, 64)) == ()


@pytest.mark.parametrize("training", [True, False])
def test_a_padded_model_returns_the_same(model: Foreign, training: bool) -> None:
    model.train(training)
    wide = pad(model)
    assert isinstance(wide.embed, PaddedEmbedding) and isinstance(wide.layer.linear1, PaddedLinear)
    assert wide.layer.linear1.padded_weight.shape == (56, 32) and wide.head.padded_weight.shape == (8, 32)
    assert isinstance(model.head, torch.nn.Linear)
    with torch.set_grad_enabled(training):
        torch.testing.assert_close(wide(TOKENS), model(TOKENS), rtol=1e-12, atol=1e-12)


def test_gradients_are_the_same_and_those_of_the_padding_are_zero(model: Foreign) -> None:
    wide = pad(model)
    for one in (model, wide):
        one(TOKENS).square().sum().backward()
    gradient = wide.layer.linear1.padded_weight.grad
    torch.testing.assert_close(gradient[:50, :30], model.layer.linear1.weight.grad, rtol=1e-10, atol=1e-12)
    assert gradient[50:].count_nonzero() == 0 and gradient[:, 30:].count_nonzero() == 0
    torch.testing.assert_close(
        wide.embed.padded_weight.grad[:101, :30], model.embed.weight.grad, rtol=1e-10, atol=1e-12
    )
    assert wide.embed.padded_weight.grad[0].count_nonzero() == 0


def test_the_state_has_the_names_and_shapes_of_the_model_it_was_made_from(model: Foreign) -> None:
    state = unpadded_state(pad(model))
    assert {name: tensor.shape for name, tensor in state.items()} == {
        name: tensor.shape for name, tensor in model.state_dict().items()
    }
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in state.items())


def test_layers_that_share_a_weight_or_appear_twice_stay(model: Foreign) -> None:
    tied = torch.nn.ModuleDict({"embed": torch.nn.Embedding(11, 6), "head": torch.nn.Linear(6, 11, bias=False)})
    tied["head"].weight = tied["embed"].weight
    assert [item.reason for item in find_misaligned(tied)] == [
        "its weight is shared with another layer (Linear)",
        "its weight is shared with another layer (Embedding)",
    ]
    assert type(pad(tied)["head"]) is torch.nn.Linear
    twice = torch.nn.Linear(3, 3)
    assert [item.reason for item in find_misaligned(torch.nn.Sequential(twice, twice))] == [
        "it is used under two names"
    ]


def test_a_single_layer_is_padded_too() -> None:
    layer = torch.nn.Linear(3, 5)
    wide = pad(layer, 4)
    x = torch.rand(2, 3)
    assert isinstance(wide, PaddedLinear) and wide.padded_weight.shape == (8, 4)
    torch.testing.assert_close(wide(x), layer(x))


@pytest.mark.parametrize("bias", [True, False])
def test_classes_that_do_not_exist_take_no_part_in_softmax_or_gradients(bias: bool) -> None:
    torch.manual_seed(0)
    head = torch.nn.Linear(30, 101, bias=bias).double()
    wide = PaddedClasses(head, 64)
    x = torch.randn(5, 30, dtype=torch.float64)
    targets = torch.tensor([0, 100, 7, 7, 50])
    for one in (head, wide):
        torch.nn.functional.cross_entropy(one(x), targets).backward()
    scores = wide(x)
    assert scores.shape == (5, 128) and scores.is_contiguous()
    torch.testing.assert_close(scores[:, :101], head(x))
    assert torch.equal(scores.argmax(-1), head(x).argmax(-1))
    gradient = wide.padded_weight.grad
    torch.testing.assert_close(gradient[:101, :30], head.weight.grad)
    assert gradient[101:].count_nonzero() == 0 and gradient[:, 30:].count_nonzero() == 0
    if bias:
        torch.testing.assert_close(wide.padded_bias.grad[:101], head.bias.grad)
    assert unpadded_state(wide).keys() == head.state_dict().keys()
    for name, tensor in unpadded_state(wide).items():
        assert torch.equal(tensor, head.state_dict()[name])


def test_an_optimizer_leaves_missing_classes_at_minus_infinity() -> None:
    wide = PaddedClasses(torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(wide.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(wide(torch.ones(2, 8)), torch.tensor([0, 2])).backward()
        optimizer.step()
    assert torch.isneginf(wide.padded_bias[3:]).all() and torch.isfinite(wide.bias).all()
    assert wide.padded_weight[3:].count_nonzero() == 0
