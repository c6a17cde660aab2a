"""What a program and torch say about themselves, as plain values for the findings."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass

import torch

from phasewise.bench.case import BuiltCase
from phasewise.records.base import Scalar


@dataclass(frozen=True)
class Compiler:
    """What torch.compile has done in this process."""

    # graphs compiled, first compilations included
    graphs: int = 0
    # places at which a graph was broken
    breaks: int = 0


def read_compiler() -> Compiler:
    """The counters of torch.compile; zeros where it was never imported."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return Compiler()
    counters = dynamo.counters
    return Compiler(
        graphs=int(counters["stats"].get("unique_graphs", 0)), breaks=int(sum(counters["graph_break"].values()))
    )


def describe_program(case: BuiltCase) -> dict[str, Scalar]:
    """The program's own facts, the dtypes of its parameters, and the settings of torch that change products."""
    found: dict[str, Scalar] = dict(case.program.facts)
    if case.program.module is not None:
        dtypes = sorted({str(parameter.dtype).removeprefix("torch.") for parameter in case.program.module.parameters()})
        found["parameter_dtypes"] = ", ".join(dtypes)
        found["parameters"] = sum(parameter.numel() for parameter in case.program.module.parameters())
    if case.program.fallbacks:
        found["fallbacks"] = ", ".join(case.program.fallbacks)
    found["float32_matmul_precision"] = torch.get_float32_matmul_precision()
    found["threads"] = torch.get_num_threads()
    # Linux counts in KiB, macOS in bytes
    unit = 1 if sys.platform == "darwin" else 1024
    found["peak_resident_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return found
