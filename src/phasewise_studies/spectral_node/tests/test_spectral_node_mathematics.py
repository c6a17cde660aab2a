"""The geometry: shooting, arc length, tables, tangents and gradients, each against another way to the same number."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from phasewise.records.errors import UserError
from phasewise_studies.spectral_node import chebyshev, closed_form, data, losses, shooting, transitions
from phasewise_studies.spectral_node.adjoint import adjoint_loss
from phasewise_studies.spectral_node.flow import Flow, draw_flow, fold, rate
from phasewise_studies.spectral_node.metric import (
    christoffel_difference,
    christoffel_tangent,
    draw_metric,
    evaluate,
    evaluate_curvature,
    evaluate_tangent,
)

WAVES = torch.linspace(-1, 1, 3, dtype=torch.float64)


@pytest.fixture(scope="module")
def parameters() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return draw_metric((16, 32), generator) | draw_flow(3, generator)


@pytest.fixture(scope="module")
def problems() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return tuple((2 * torch.rand(2, 20, 1, dtype=torch.float64, generator=generator) - 1).expand(2, 20, 3).unbind(0))


@pytest.mark.parametrize("count", [0, 9])
def test_levels_that_there_are_not_are_refused(count: int) -> None:
    with pytest.raises(UserError, match=f"levels={count} is not allowed; give 1 to 6"):
        data.levels(count)


def test_tangent_and_curvature_are_autograd_s(parameters) -> None:
    c = torch.linspace(-1, 1, 7, dtype=torch.float64, requires_grad=True)
    g = evaluate(parameters, c, WAVES[1])
    (slope,) = torch.autograd.grad(g.sum(), c, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), c)
    assert torch.allclose(evaluate_tangent(parameters, c, WAVES[1])[1], slope, rtol=1e-12, atol=1e-14)
    assert torch.allclose(evaluate_curvature(parameters, c, WAVES[1])[1], bend, rtol=1e-11, atol=1e-13)


def test_a_finite_difference_holds_in_float64_and_not_in_lower_precision(parameters) -> None:
    c = torch.linspace(-0.9, 0.9, 50, dtype=torch.float64)[:, None]
    exact = christoffel_tangent(parameters, c, WAVES)
    single = {name: value.float() for name, value in parameters.items()}

    def error(found: torch.Tensor) -> float:
        return float((found - exact).norm() / exact.norm())

    assert error(christoffel_difference(parameters, c, WAVES)) < 1e-6
    assert error(christoffel_tangent(single, c.float(), WAVES.float())) < 1e-5
    assert error(christoffel_difference(single, c.float(), WAVES.float())) > 1e-4
    assert error(christoffel_difference(single, c.float(), WAVES.float(), autocast=torch.bfloat16)) > 1


def test_no_adaptive_step_and_no_clamp_makes_a_difference_as_good_as_the_tangent() -> None:
    # the table of notes/learning.md
    parameters = draw_metric((16, 32), torch.Generator().manual_seed(0))
    c, waves = torch.linspace(-1, 1, 200, dtype=torch.float64)[:, None], torch.linspace(-1, 1, 12, dtype=torch.float64)
    single = {name: value.float() for name, value in parameters.items()}
    exact = christoffel_tangent(parameters, c, waves)

    def error(step, dtype: torch.dtype) -> float:
        given = parameters if dtype is torch.float64 else single
        found = christoffel_difference(given, c.to(dtype), waves.to(dtype), step=step)
        return float((found - exact).norm() / exact.norm())

    best = torch.finfo(torch.float32).eps ** (1 / 3)
    fixed, scaled = error(1e-4, torch.float32), error((1e-4 * c.abs().clamp(min=0.01)).float(), torch.float32)
    assert scaled > 3 * fixed
    assert error(best, torch.float32) < error((best * c.abs().clamp(min=0.1)).float(), torch.float32) < fixed
    assert (
        float((christoffel_tangent(single, c.float(), waves.float()) - exact).norm() / exact.norm())
        < error(best, torch.float32) / 50
    )
    # one-sided at the ends, where the two steps are no longer as long as each other
    below, at, above = (evaluate(parameters, place.clamp(-1, 1), waves) for place in (c - 1e-4, c, c + 1e-4))
    clamped = (above - below) / (2 * ((c + 1e-4).clamp(-1, 1) - (c - 1e-4).clamp(-1, 1)) * at)
    assert float((clamped - exact).norm() / exact.norm()) > 100 * error(1e-4, torch.float64)


def test_true_newton_converges_where_the_damped_update_does_not(parameters, problems) -> None:
    start, stop = problems
    integrate = partial(
        shooting.integrate_geodesic, partial(christoffel_tangent, parameters, wavelength=WAVES), steps=20
    )
    left = {
        slope: float((shooting.shoot(integrate, start, stop, newton=10, slope=slope)[1] - stop).abs().max())
        for slope in ("exact", "difference", "damped")
    }
    assert left["exact"] < 1e-12
    assert left["difference"] < 1e-10
    assert left["damped"] > 1e-5


def test_shooting_approaches_the_closed_form_at_fourth_order(parameters, problems) -> None:
    start, stop = problems
    gamma = partial(christoffel_tangent, parameters, wavelength=WAVES)
    v0, _ = closed_form.solve_closed(closed_form.make_tables(parameters, WAVES, 2000), start, stop)
    errors = [
        float((shooting.integrate_geodesic(gamma, start, v0, steps)[0] - stop).abs().max()) for steps in (5, 10, 20)
    ]
    assert errors[2] < 1e-6
    # 2^4 a doubling, up to a fifth-order term that may help
    assert errors[0] / errors[1] > 12
    assert errors[1] / errors[2] > 12


def test_g_v_squared_is_constant_along_a_geodesic(parameters, problems) -> None:
    start, stop = problems
    v0, _ = closed_form.solve_closed(closed_form.make_tables(parameters, WAVES, 2000), start, stop)
    c, v = shooting.integrate_geodesic(partial(christoffel_tangent, parameters, wavelength=WAVES), start, v0, 50)
    before, after = evaluate(parameters, start, WAVES) * v0**2, evaluate(parameters, c, WAVES) * v**2
    assert torch.allclose(after, before, rtol=1e-6)


def test_tables_invert_each_other_and_a_still_transition_stays(parameters) -> None:
    tables = closed_form.make_tables(parameters, WAVES, 500)
    c = torch.linspace(-1, 1, 41, dtype=torch.float64)[:, None].expand(-1, 3)
    part = closed_form.arc_length(tables, c) / tables.arc[:, -1]
    assert (closed_form.look_up(tables.inverse, 2 * part - 1) - c).abs().max() < 2e-6
    v0, end = closed_form.solve_closed(tables, c, c)
    assert not v0.any()
    assert (end - c).abs().max() < 2e-6


def test_the_spectrum_over_concentration_is_the_spectrum_over_time(parameters, problems) -> None:
    start, stop = problems
    flow, tables = fold(parameters), closed_form.make_tables(parameters, WAVES, 2000)
    a = torch.linspace(0, 1, 60, dtype=torch.float64).reshape(20, 3)
    v0, over_concentration = closed_form.couple_closed(tables, flow, start, stop, a, 20)
    gamma = partial(christoffel_tangent, parameters, wavelength=WAVES)
    _, _, over_time = shooting.integrate_coupled(gamma, partial(rate, flow), start, v0, a, 50)
    assert (over_concentration - over_time).abs().max() < 1e-6


@pytest.mark.parametrize("way", [0.0, 1e-4, 3e-3, -0.06, 0.065])
def test_in_float32_the_spectrum_of_a_short_transition_is_as_exact_as_any(parameters, way: float) -> None:
    start = torch.linspace(-0.9, 0.9, 200).double()[:, None].expand(-1, 3)
    stop = (start + way).float().double()
    tables, a = closed_form.make_tables(parameters, WAVES, 2000), torch.ones(200, 3)
    gamma, flow = partial(christoffel_tangent, parameters, wavelength=WAVES), fold(parameters)
    v0, _ = closed_form.solve_closed(tables, start, stop)
    _, _, exact = shooting.integrate_coupled(gamma, partial(rate, flow), start, v0, a.double(), 20)
    single = Flow(*(part.float() for part in flow))
    tables = closed_form.cast(tables, torch.float32, torch.device("cpu"))
    found_v0, found = closed_form.couple_closed(tables, single, start.float(), stop.float(), a, 10)
    assert (found - exact).abs().max() < 5e-6
    assert (found_v0 - v0).abs().max() < 1e-6


def test_folding_the_embedding_changes_nothing(parameters) -> None:
    c, v, a = torch.randn(3, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).unbind(0)
    whole = torch.cat((torch.stack((c, v, a), -1), parameters["flow/embedding"].expand(4, 3, 8)), -1)
    hidden = torch.tanh(whole @ parameters["flow/w1"].T + parameters["flow/b1"])
    assert torch.allclose(rate(fold(parameters), c, v, a), hidden @ parameters["flow/w2"] + parameters["flow/b2"])


@pytest.mark.parametrize("power", [0, 1, 2, 5])
def test_spectral_maps_are_exact_for_polynomials(power: int) -> None:
    nodes, points = chebyshev.chebyshev_nodes(8), torch.linspace(-1, 1, 9, dtype=torch.float64)
    assert torch.allclose(chebyshev.value_map(points, 8) @ nodes**power, points**power)
    exact = (points ** (power + 1) - (-1.0) ** (power + 1)) / (power + 1)
    assert torch.allclose(chebyshev.integral_map(points, 8) @ nodes**power, exact)


def test_a_lookup_is_linear_between_columns_and_constant_outside() -> None:
    table = torch.tensor([[0.0, 1.0, 4.0]], dtype=torch.float64)
    c = torch.tensor([[-3.0], [-1.0], [-0.5], [0.0], [0.25], [1.0], [2.0]], dtype=torch.float64)
    assert closed_form.look_up(table, c)[:, 0].tolist() == [0.0, 0.0, 0.5, 1.0, 1.75, 4.0, 4.0]


@pytest.mark.parametrize("loss", [losses.unrolled_loss, partial(losses.unrolled_loss, recompute=True), adjoint_loss])
def test_gradients_by_every_way_are_those_of_the_closed_form(parameters, loss) -> None:
    pairs = transitions.all_pairs(3)
    levels = torch.tensor([-1.0, 0.1, 1.0], dtype=torch.float64)
    made = transitions.make_transitions(
        levels, WAVES, pairs, steps=20, newton=6, dtype=torch.float64, device=torch.device("cpu")
    )
    table = torch.rand(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))

    def gradient(function) -> dict[str, torch.Tensor]:
        weights = {name: value.clone().requires_grad_() for name, value in parameters.items()}
        function(made, weights, table, torch.arange(len(pairs)))[0].backward()
        return {name: weight.grad for name, weight in weights.items()}

    found, exact = gradient(loss), gradient(losses.closed_loss)
    for name, value in exact.items():
        assert float((found[name] - value).norm() / value.norm()) < 2e-4, name
        assert value.abs().max() > 0, name


def test_the_synthetic_table_is_not_monotone_in_the_concentration() -> None:
    table = data.absorbance(data.levels()[:, None], data.wavelengths(601))
    rises = (table[1:] > table[:-1]).any(0)
    falls = (table[1:] < table[:-1]).any(0)
    assert (rises & falls).double().mean() > 0.2


def test_the_real_spectra_are_sorted_and_a_line_through_six_predicts_them_poorly() -> None:
    spectra = data.load_real()
    assert spectra.table.shape == (21, 601)
    assert (spectra.levels.diff() > 0).all()
    known = torch.linspace(0, 20, 6).round().long()
    rest = torch.tensor([k for k in range(21) if k not in known.tolist()])
    line = data.interpolate_linear(spectra.levels[known], spectra.table[known], spectra.levels[rest])
    truth = spectra.table[rest]
    r2 = 1 - (line - truth).square().sum() / (truth - truth.mean(0)).square().sum()
    assert 0.2 < r2 < 0.8
