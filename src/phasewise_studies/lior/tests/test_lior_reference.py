"""The float64 reference against closed forms that share nothing with it."""

from __future__ import annotations

import math

import pytest
import torch

from phasewise_studies.lior import reference
from phasewise_studies.lior.data import MAPS, STATE, draw, draw_batch
from phasewise_studies.lior.tests.lior_runs import make_shape
from phasewise_studies.lior.window import (
    BETA,
    EPS,
    LAMBDA_F,
    index_layers,
    list_planes,
    memory_weight,
    read_sizes,
    rotate_by_layers,
)

SIZES = read_sizes(make_shape(feedback=True))


def start(sizes=SIZES):
    inputs = draw(sizes, 0)
    return {name: inputs[name] for name in STATE}, {name: inputs[name] for name in MAPS}, inputs


def test_the_open_field_after_64_steps_is_the_product_of_its_fourier_factors() -> None:
    sizes = read_sizes(make_shape(feedback=False, steps=64, grid=6))
    state, maps, batch = start(sizes)
    _, after = reference.run_window(state, maps, batch, sizes)
    rest = torch.view_as_complex(maps["rest"])
    end = (torch.view_as_complex(after["field"]) - LAMBDA_F * rest) / (1 - LAMBDA_F)
    exact = reference.closed_form_field(torch.view_as_complex(state["field"]), 64)
    assert float((end - exact).norm() / exact.norm()) < 1e-14


def test_explicit_euler_grows_by_no_more_than_the_relaxation_takes_back() -> None:
    growth = 1.0
    for step in range(64):
        growth *= abs(1 + 8j * (1 - memory_weight(step)) * reference.DT / (2 * reference.MASS))
    assert growth == pytest.approx(1.011, abs=1e-3)
    assert growth * (1 - LAMBDA_F) < 1


def test_the_mean_of_an_open_field_stays_what_it_is() -> None:
    sizes = read_sizes(make_shape(feedback=False, steps=16))
    state, maps, batch = start(sizes)
    free = reference.run_phase(state, maps, batch, sizes, 0.0, None)
    assert float((free.coordinates - free.coordinates[:1]).abs().max()) < 1e-14


def test_rotors_keep_norms_and_can_be_turned_back() -> None:
    points = torch.randn(5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theta = torch.linspace(-3, 3, 6, dtype=torch.float64)
    turned = reference.rotate(points, theta)
    assert float((turned.norm(dim=1) - points.norm(dim=1)).abs().max()) < 4e-15
    layers = index_layers(points.device)
    assert float((turned - rotate_by_layers(points, theta, layers)).abs().max()) < 1e-15
    matrix = rotate_by_layers(torch.eye(8, dtype=torch.float64), theta, layers)
    assert float((turned @ matrix.T - points).abs().max()) < 4e-15


def test_the_planes_of_a_layer_share_no_coordinate_and_there_are_six_in_all() -> None:
    layers = list_planes()
    assert [len(layer) for layer in layers] == [4, 2]
    assert layers[1] == [(1, 2), (3, 4)]
    for layer in layers:
        flat = [coordinate for pair in layer for coordinate in pair]
        assert len(set(flat)) == len(flat)


def test_without_rotation_retrieval_is_softmax_attention_over_distances() -> None:
    state, _, batch = start()
    valid = state["bank_valid"].bool()
    weights, y = reference.retrieve(
        batch["tokens"], state["bank_coords"], state["bank_states"], valid, torch.ones(8, dtype=torch.float64), 1.0
    )
    difference = state["bank_coords"][None] - batch["tokens"][:, None]
    scores = (-BETA * (difference.square().sum(-1) + EPS).sqrt()).masked_fill(~valid, -torch.inf)
    blank = torch.zeros(1, 1, 1, 8, dtype=torch.float64)
    exact = torch.nn.functional.scaled_dot_product_attention(
        blank.expand(1, 1, SIZES.batch, 8), blank.expand(1, 1, SIZES.bank, 8), state["bank_states"][None, None],
        attn_mask=scores[None, None],
    )[0, 0]  # fmt: skip
    assert float((y - exact).abs().max()) < 1e-13
    assert not weights[:, ~valid].any()
    assert float((weights.sum(1) - 1).abs().max()) < 1e-14


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_contrast_is_linear_in_the_nudge_and_symmetric_nudging_has_no_even_part(symmetric: bool) -> None:
    sizes = read_sizes(make_shape(feedback=True, symmetric=symmetric))
    state, maps, batch = start(sizes)
    pull = batch["targets"] - batch["tokens"]

    def contrast(scale: float) -> float:
        report, _ = reference.run_window(state, maps, {**batch, "targets": batch["tokens"] + scale * pull}, sizes)
        lior = report["lior"]
        return float((lior[1] - lior[2]) / 2 if symmetric else lior[1] - lior[0])

    none, once, twice = contrast(0.0), contrast(0.02), contrast(0.04)
    even = abs((twice - none) / (once - none) - 2)
    # halving the nudge halves the even part of a one-sided contrast, and quarters what a symmetric one has left
    assert even < (1e-3 if symmetric else 2e-2)


def test_without_a_nudge_nothing_is_learned() -> None:
    state, maps, batch = start()
    free = reference.run_phase(state, maps, batch, SIZES, 0.0, None)
    same = reference.run_phase(state, maps, batch, SIZES, 0.0, free.coordinates)
    assert torch.equal(free.lior, same.lior)
    after = reference.update(state, maps, batch, SIZES, free, 0.0)
    assert torch.equal(after["metric"], state["metric"])
    assert float((after["theta"] - state["theta"]).abs().max()) < 1e-15


def test_the_bank_is_a_ring() -> None:
    sizes = read_sizes(make_shape(feedback=False, bank=7, filled=5, batch=3, steps=1))
    state, maps, batch = start(sizes)
    report, after = reference.run_window(state, maps, batch, sizes)
    assert int(after["cursor"]) == 1
    assert after["bank_valid"].tolist() == [1] * 7
    blended = 0.5 * batch["values"][2] + 0.5 * report["retrieved"][0, -1, 2]
    assert float((after["bank_states"][0] - blended).abs().max()) < 1e-15
    assert torch.equal(after["bank_states"][1:5], state["bank_states"][1:5])


def test_angles_are_wrapped() -> None:
    state, maps, batch = start()
    state["theta"] = torch.full_like(state["theta"], math.pi - 1e-9)
    free = reference.run_phase(state, maps, batch, SIZES, 0.0, None)
    after = reference.update(state, maps, batch, SIZES, free, 5.0)
    assert bool((after["theta"] >= -math.pi).all() and (after["theta"] < math.pi).all())
    assert bool((after["theta"] < 0).any())


def test_batches_follow_the_seed_and_the_start_does_not() -> None:
    one, two = draw(SIZES, 1), draw(SIZES, 2)
    assert not torch.equal(one["tokens"], two["tokens"])
    assert all(torch.equal(one[name], two[name]) for name in (*STATE, *MAPS))
    assert torch.equal(draw_batch(SIZES, 1)["values"], one["values"])
