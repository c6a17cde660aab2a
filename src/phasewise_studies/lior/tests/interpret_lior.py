"""Run by test_lior_kernels.py in a process where Triton interprets: prints the error of each case, as JSON."""

from __future__ import annotations

import json

import torch

from phasewise_studies.lior.kernels.retrieval import retrieve_rows
from phasewise_studies.lior.retrieval import measure_cost, weigh
from phasewise_studies.lior.tests.lior_runs import (
    FUSED,
    HALF,
    build,
    make_shape,
    make_switches,
    run_reference,
    run_windows,
    worst_error,
)


def main() -> None:
    """Measure all cases."""
    found: dict[str, float] = {}
    for feedback in (True, False):
        # two steps show that the first one's source and the second one's planes are used
        shape = make_shape(feedback=feedback, steps=2)
        exact = run_reference(shape)
        mode = "feedback" if feedback else "open"
        cases = dict(FUSED) | (dict(HALF) if feedback else {})
        if feedback:
            cases["persistent"] = {"engine": "persistent", "mix": "split", "metrics": "window"}
        for name, settings in cases.items():
            made = build(make_switches(settings, feedback=feedback), shape)
            assert not made.fallbacks
            found[f"{mode}/{name}"] = worst_error(run_windows(made, shape), exact)
    symmetric = make_shape(feedback=True, symmetric=True, steps=2)
    made = build(make_switches(FUSED["fused-split"], feedback=True), symmetric)
    found["symmetric"] = worst_error(run_windows(made, symmetric), run_reference(symmetric))
    found |= measure_edges()
    print(json.dumps(found))


def measure_edges() -> dict[str, float]:
    """A block without a valid row, a query on top of a row, and a bank that ends where `count` says."""
    generator = torch.Generator().manual_seed(3)
    coords, states = torch.randn(300, 8, generator=generator), torch.randn(300, 70, generator=generator)
    query, metric, curvature = coords[[5, 299, 17]].clone(), torch.rand(8, generator=generator), torch.tensor(1.3)
    valid = torch.ones(300, dtype=torch.bool)
    valid[128:256] = False
    found = {}
    for name, mask, count in (("hole", valid, None), ("count", torch.arange(300) < 130, 130)):
        exact = weigh(measure_cost(query.double(), coords.double(), mask, metric.double(), curvature.double()))
        bound = None if count is None else torch.tensor(count, dtype=torch.int32)
        y = retrieve_rows(query, coords, states, mask, metric, curvature, count=bound)
        found[f"edge/{name}"] = float((y - exact @ states.double()).abs().max())
    return found


if __name__ == "__main__":
    main()
