"""cubie's peer: its equations are those of a geodesic, and it gives what the reference gives, in its simulator where there is no GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from phasewise_studies.spectral_node import data, peers, program
from phasewise_studies.spectral_node.metric import christoffel_tangent, take_metric
from phasewise_studies.spectral_node.peers import ensemble
from phasewise_studies.spectral_node.phases import workload
from phasewise_studies.spectral_node.tests.test_spectral_node_program import worst

SHAPE = workload.cases["solve"].tiny
NO_PACKAGE = "needs cubie (pip install cubie)"


def test_the_equations_are_those_of_a_geodesic() -> None:
    inputs = program.make_inputs("solve", SHAPE, 0)
    series = ensemble.expand_christoffel(inputs, SHAPE)
    # beyond the ends the grid holds its last value
    c = torch.tensor([[-1.2], [-1.0], [-0.31], [0.0], [0.77], [1.0], [1.1]], dtype=torch.float64)
    v = torch.linspace(-1.5, 1.5, 7, dtype=torch.float64)[:, None]
    known: dict[str, Any] = {
        "Max": lambda low, x: x.clamp_min(low),
        "Min": lambda high, x: x.clamp_max(high),
        "c": c,
        "v": v,
    }
    known |= {f"a{term:02d}": row for term, row in enumerate(series)}
    for line in ensemble.write_equations():
        name, _, text = line.partition(" = ")
        known[name] = eval(text, {"__builtins__": {}}, known)
    metric = take_metric(inputs, dtype=torch.float64, device=torch.device("cpu"))
    gamma = christoffel_tangent(metric, c.clamp(-1, 1), data.wavelengths(SHAPE.wavelengths)[None, :])
    assert torch.equal(known["dc"], v)
    assert torch.allclose(known["dv"], -gamma * v * v, atol=3e-5)


# a process has its simulator or the GPU, whichever cubie is imported for
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, and the test below asks it")
def test_in_its_simulator_it_gives_what_the_reference_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    cuda = pytest.importorskip("cubie._cudasim_extensions", reason=NO_PACKAGE).cuda
    inputs = program.make_inputs("solve", SHAPE, 0)

    def take(array: Any) -> Tensor:
        return torch.from_numpy(array.copy_to_host())

    built = ensemble.solve_with(inputs, SHAPE, torch.device("cpu"), lambda tensor: cuda.to_device(tensor.numpy()), take)
    assert worst(built, "solve", SHAPE) <= 1
    built.close()


@pytest.mark.gpu
def test_on_a_gpu_it_gives_what_the_reference_gives() -> None:
    pytest.importorskip("cubie", reason=NO_PACKAGE)
    inputs = program.make_inputs("solve", SHAPE, 0)
    wanted = program.reference(inputs, "solve", SHAPE).step(inputs)
    built = peers.cubie(inputs, "solve", SHAPE, torch.device("cuda"))
    for name, tensor in built.step(built.place(inputs)).items():
        assert torch.allclose(tensor.double().cpu(), wanted[name], rtol=1e-5, atol=1e-5)
