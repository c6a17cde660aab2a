"""Run by test_spectral_node_kernels.py in a process where Triton interprets: prints the error of each kernel, as JSON."""

from __future__ import annotations

import json

import torch

from phasewise_studies.spectral_node import losses, transitions
from phasewise_studies.spectral_node.checks.proposals import positive
from phasewise_studies.spectral_node.closed_form import cast, make_tables
from phasewise_studies.spectral_node.flow import draw_flow, fold, take_flow
from phasewise_studies.spectral_node.kernels import launch_solvers as kernels
from phasewise_studies.spectral_node.kernels.launch_christoffel import christoffel
from phasewise_studies.spectral_node.kernels.softplus import softplus_fused
from phasewise_studies.spectral_node.metric import christoffel_tangent, draw_metric

CPU = torch.device("cpu")


def make_both(waves: int, columns: int) -> tuple[kernels.Constants, kernels.Constants, dict[str, torch.Tensor]]:
    """Tables and flow in float32, for which there is a kernel, and in float64, for which there is none."""
    generator = torch.Generator().manual_seed(0)
    parameters = draw_metric((16, 32), generator) | draw_flow(waves, generator)
    wavelengths = torch.linspace(-1, 1, waves, dtype=torch.float64)
    grid = torch.linspace(-1, 1, columns, dtype=torch.float64)
    gamma = christoffel_tangent(parameters, grid[None], wavelengths[:, None])
    tables = make_tables(parameters, wavelengths, columns)

    def ready(dtype: torch.dtype) -> kernels.Constants:
        flow = fold(take_flow(parameters, dtype=dtype, device=CPU))
        return kernels.Constants(gamma.to(dtype), cast(tables, dtype, CPU), flow, kernels.scale_flow(flow))

    return ready(torch.float32), ready(torch.float64), parameters


def worst(found, exact) -> float:
    """The largest error; inf where something is not finite."""
    return max(
        float((one - other).abs().nan_to_num(float("inf")).max()) for one, other in zip(found, exact, strict=True)
    )


def compare_solvers() -> dict[str, float]:
    """Each solver at sizes with tails: one transition, 33 of them, one that is short and one that stands still."""
    errors = {}
    for columns, count in ((65, 33), (64, 1)):
        single, double, _ = make_both(2, columns)
        generator = torch.Generator().manual_seed(count)
        start, stop = (2 * torch.rand(2, count, dtype=torch.float64, generator=generator) - 1).unbind(0)
        a = torch.rand(2, count, dtype=torch.float64, generator=generator)
        if count > 1:
            stop[-2:] = start[-2:] + torch.tensor([1e-3, 0.0])
        calls = {
            "solve": (kernels.solve, (start, stop), {"steps": 4, "newton": 2, "launch": kernels.Launch(32, 1)}),
            "couple": (kernels.couple, (start, stop, a), {"steps": 8, "newton": 1, "launch": kernels.Launch(32, 1)}),
            "closed-solve": (kernels.closed_solve, (start, stop), {}),
            "closed-couple": (kernels.closed_couple, (start, stop, a), {"steps": 2}),
        }
        for name, (function, arguments, sizes) in calls.items():
            plain = {key: value for key, value in sizes.items() if key != "launch"}
            found = function(single, *(argument.float() for argument in arguments), **sizes)
            errors[f"{name}-{count}"] = worst(found, function(double, *arguments, **plain))
    return errors


def compare_christoffel() -> float:
    """Gamma at 19 concentrations for 3 wavelengths."""
    _, _, parameters = make_both(3, 8)
    points = torch.linspace(-1, 1, 19, dtype=torch.float64)
    wavelengths = torch.linspace(-1, 1, 3, dtype=torch.float64)
    single = {name: value.float() for name, value in parameters.items()}
    found = christoffel(single, points.float(), wavelengths.float(), tile=(16, 16, 16, 4))
    return worst([found], [christoffel_tangent(parameters, points[None], wavelengths[:, None])])


def compare_training() -> float:
    """The largest relative error of a gradient, over all parameters."""
    _, _, parameters = make_both(2, 8)
    levels = torch.tensor([-1.0, 0.2, 1.0], dtype=torch.float64)
    gradients = []
    for dtype, loss in ((torch.float64, losses.closed_loss), (torch.float32, losses.fused_loss)):
        weights = {name: value.to(dtype).requires_grad_() for name, value in parameters.items()}
        weights = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}
        made = transitions.make_transitions(
            levels, torch.tensor([-0.5, 0.5]), transitions.all_pairs(3), steps=4, newton=4, dtype=dtype, device=CPU
        )
        table = torch.linspace(0, 1, 6, dtype=dtype).reshape(3, 2)
        loss(made, weights, table, torch.tensor([4, 0, 2, 5, 1]))[0].backward()
        gradients.append({name: weight.grad.double() for name, weight in weights.items()})
    exact, found = gradients
    return max(float((found[name] - exact[name]).norm() / exact[name].norm()) for name in exact)


def compare_softplus() -> float:
    """Far out on both sides, a block and a tail, and nothing at all."""
    z, bias = torch.linspace(-120, 120, 1500, dtype=torch.float64), torch.tensor(0.7, dtype=torch.float64)
    assert softplus_fused(z[:0].float(), bias.float()).numel() == 0
    return worst([softplus_fused(z.float(), bias.float())], [positive(z, bias)])


if __name__ == "__main__":
    single = {"christoffel": compare_christoffel(), "training": compare_training(), "softplus": compare_softplus()}
    print(json.dumps({**compare_solvers(), **single}))
