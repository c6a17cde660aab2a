"""What every launch of every kernel takes, on the GPU that is here.

python -m phasewise_studies.painn.kernels.launch_times batch-1024 box-10k
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from phasewise import Shape
from phasewise.records.errors import UserError, report_errors
from phasewise_studies.painn import engine, neighbours, program
from phasewise_studies.painn.data import as_atoms, make_batch
from phasewise_studies.painn.kernels.fused_messages import default_launches
from phasewise_studies.painn.kernels.message import pack_filter
from phasewise_studies.painn.kernels.tuning import time_messages, time_tiles
from phasewise_studies.painn.phases import CASES
from phasewise_studies.painn.switches import EVERYTHING, Switches
from phasewise_studies.painn.weights import choose_weights


def print_times(case: str, shape: Shape, device: torch.device) -> None:
    """Microseconds of every launch for systems of this shape, the fastest of each kernel first."""
    switches = Switches(**EVERYTHING)
    weights, sizes = choose_weights(shape.features)
    atoms = as_atoms(program.to_device(make_batch(shape, 0), device))
    ready = engine.ready_weights(switches, weights, sizes, device)
    find, _ = engine.choose_finder(switches, atoms, neighbours.plan_list(atoms, sizes.cutoff))
    count, filters = len(atoms.numbers), pack_filter(ready["filter.weight"], ready["filter.bias"], sizes.layers)
    forward, adjoint = time_messages(filters, sizes, find(atoms), default_launches(count, sizes, device))
    tiles = time_tiles(ready, sizes, count, engine.choose_products(switches))
    for name, times in {"message": forward, "adjoint": adjoint, **tiles}.items():
        for launch, seconds in sorted(times.items(), key=lambda entry: entry[1]):
            print(f"{case} {name} {seconds * 1e6:.1f} us {launch}", flush=True)


@report_errors
def main(cases: Sequence[str]) -> None:
    """Print the times of the named cases."""
    unknown = [case for case in cases if case not in CASES]
    if unknown or not cases:
        raise UserError(f"case: {unknown[0] if unknown else 'none'} was given; choose among {', '.join(CASES)}")
    if not torch.cuda.is_available():
        raise UserError(
            "launches are timed on an NVIDIA GPU, and torch finds none here; run it on a machine that has one"
        )
    for case in cases:
        print_times(case, CASES[case].full, torch.device("cuda"))


if __name__ == "__main__":
    main(sys.argv[1:])
