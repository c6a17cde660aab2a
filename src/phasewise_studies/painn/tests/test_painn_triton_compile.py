"""The kernels of painn compiled to machine code for GPUs that are not here: no spills, no more shared memory than there is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

triton = pytest.importorskip("triton", reason="Triton compiles these kernels")

from phasewise_studies.painn.kernels import (  # noqa: E402
    adjoint,
    adjoint_tiles,
    cells,
    dense,
    forces,
    lists,
    message,
    message_tiles,
    molecules,
    pairs,
    prune,
    radial,
    readout,
    split,
    table,
    update,
    update_adjoint,
)

INTEGERS = {
    "around", "atoms", "capacity", "cells", "columns", "edges", "last", "n_x", "n_y", "n_z", "reach_x", "reach_y", "reach_z", "rows",
    "stride_column", "stride_k", "stride_n", "stride_norm", "stride_part", "stride_q", "stride_residual", "stride_row", "stride_second",
    "stride_x",
}  # fmt: skip
FLOATS = {"cutoff", "epsilon", "far", "first", "per_step"}
INT_POINTERS = {
    "counts", "held", "home", "homes", "i", "j", "member", "numbers", "overflow", "reverse", "row_ptr", "runs", "shift", "start",
    "system", "totals", "wide_j", "wide_overflow", "wide_row_ptr",
}  # fmt: skip
DOUBLES = {"atomref", "cell", "forces", "gradient", "positions", "total", "where"}
# by kernel, since elsewhere numbers are those of atoms
HALVES = {
    split.split_edge_kernel: {"numbers", "slopes"},
    message_tiles.message_tile_kernel: {"numbers", "filters"},
    adjoint_tiles.adjoint_tile_kernel: {"numbers", "slopes", "filters"},
}
# bytes of shared memory a block may have
SHARED = {75: 64 * 1024, 80: 163 * 1024, 90: 227 * 1024}


def compile_kernel(kernel, constants: dict, capability: int, warps: int = 4, stages: int = 3):
    """Machine code for this compute capability; pointers and strides of whole rows are aligned, as they are in use."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    doubles = DOUBLES | ({"out"} if kernel in (forces.sum_kernel, forces.energy_kernel) else set())
    # messages read their records two numbers at a time
    pairs = {"record", "slope"} if kernel in (message.message_kernel, adjoint.message_adjoint_kernel) else set()
    halves = HALVES.get(kernel, set())
    signature = {
        n: "constexpr" if n in constants else "i32" if n in INTEGERS else "fp32" if n in FLOATS
        else "*i64" if n in pairs else "*fp16" if n in halves else "*i32" if n in INT_POINTERS else "*fp64" if n in doubles else "*fp32"
        for n in kernel.arg_names
    }  # fmt: skip
    at = {n: (i,) for i, n in enumerate(kernel.arg_names)}
    strides = {"columns"} | {name for name in INTEGERS if name.startswith("stride_")} - {"stride_row", "stride_column"}
    aligned = {
        at[n]: [["tt.divisibility", 16]]
        for n, kind in signature.items()
        if kind[0] == "*" or (n in strides and kind == "i32")
    }
    source = ASTSource(kernel, signature, {at[n]: value for n, value in constants.items()}, aligned)
    options = {"num_warps": warps, "num_stages": stages}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def spilled_bytes(compiled, folder: Path) -> int:
    """Bytes of stack that the machine code keeps for each thread."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    found = tool if tool.exists() else shutil.which("cuobjdump")
    if not found:
        pytest.skip("cuobjdump is not installed with Triton")
    path = folder / "kernel.cubin"
    path.write_bytes(compiled.asm["cubin"])
    listing = subprocess.run([found, "-res-usage", path], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"STACK:(\d+)", listing)[1])


def rows(launch: message.RowLaunch, **constants) -> dict:
    if launch.tile:
        return {
            "DEPTH": 64,
            "FEATURES": 128,
            "WIDTH": launch.summed,
            "WARPS": launch.warps,
            "EDGES": launch.tile,
            **constants,
        }
    return {"COUNT": 21, "TABLE": False, "FEATURES": 128, "BLOCK": launch.block, "ROWS": launch.rows,
            "UNROLL": launch.unroll, "STREAMED": launch.streamed, **constants}  # fmt: skip


def tile(launch: dense.TileLaunch, **constants) -> dict:
    return {"PRECISION": "split", "ROWS": launch.rows, "COLUMNS": launch.columns, "STEP": launch.depth, **constants}


LINEAR = {"DEPTH": 128, "MORE": 128, "BIAS": True, "SILU": True, "SLOPE": False, "RESIDUAL": 0, "stride_k": 1}
BACK = {"DEPTH": 384, "MORE": 0, "BIAS": False, "SILU": False, "SLOPE": True, "RESIDUAL": 128, "stride_k": 1}
UPDATE = {"FEATURES": 128, "stride_k": 1}
TILED = {
    "linear": (dense.linear_kernel, dense.LINEAR_LAUNCHES, LINEAR),
    "linear-back": (dense.linear_kernel, dense.LINEAR_LAUNCHES, BACK),
    "mix": (update.mix_kernel, update.MIX_LAUNCHES, UPDATE),
    "gate": (update.gate_kernel, update.GATE_LAUNCHES, UPDATE | {"LAST": False}),
    "ungate": (update_adjoint.ungate_kernel, update_adjoint.UNGATE_LAUNCHES, UPDATE | {"LAST": False}),
    "unmix": (update_adjoint.unmix_kernel, update_adjoint.UNMIX_LAUNCHES, UPDATE | {"LAST": False}),
}
TILE = {"ROWS": lists.ROWS, "COLUMNS": lists.COLUMNS}
SEARCH = {"SQUARE": 25.0, "FILL": True}
# where they are not four
WARPS = {"pair-count": 1, "pair-fill": 2}
SMALL = {
    "records": (
        radial.edge_record_kernel,
        {"RADIAL": 20, "COLUMNS": 32, "GAUSSIAN": True, "SLOPES": True, "BLOCK": 64},
    ),
    "bessel-records": (
        radial.edge_record_kernel,
        {"RADIAL": 20, "COLUMNS": 32, "GAUSSIAN": False, "SLOPES": True, "BLOCK": 64},
    ),
    "table-records": (table.table_record_kernel, {"BLOCK": 128}),
    "molecule-fill": (molecules.molecule_kernel, TILE | SEARCH),
    "prune-fill": (prune.prune_kernel, TILE | SEARCH | {"PERIODIC": True}),
    "bin": (cells.bin_kernel, {"SLOTS": 32, "BLOCK": 128}),
    "pack": (cells.pack_kernel, {"SLOTS": 32}),
    "scan": (pairs.scan_kernel, {"ROWS": 128, "AROUND": 32}),
    "pair-count": (pairs.pair_kernel, {"ROWS": 16, "COLUMNS": 16, "SLOTS": 64, "SQUARE": 25.0, "FILL": False}),
    "pair-fill": (pairs.pair_kernel, TILE | SEARCH | {"SLOTS": 64}),
    "reverse": (lists.reverse_kernel, {"EDGES": lists.EDGES, "COLUMNS": lists.COLUMNS}),
    "reverse-sorted": (lists.reverse_sorted_kernel, {"EDGES": lists.SORTED_EDGES}),
    "forces": (forces.force_kernel, {"PARTS": 2, "STRAIN": True, "ROWS": 8, "COLUMNS": 16}),
    "energies": (forces.energy_kernel, {"CHUNK": 1024}),
    "sums": (forces.sum_kernel, {"CHUNK": 1024}),
    "split": (
        split.split_edge_kernel,
        {"RADIAL": 20, "DEPTH": 64, "GAUSSIAN": True, "SLOPES": True, "BLOCK": split.BLOCK},
    ),
    "bessel-split": (
        split.split_edge_kernel,
        {"RADIAL": 20, "DEPTH": 64, "GAUSSIAN": False, "SLOPES": True, "BLOCK": split.BLOCK},
    ),
    "readout": (readout.readout_kernel, {"HIDDEN": 64, "COLUMNS": 64, "ROWS": 16}),
}

warnings = pytest.mark.filterwarnings("ignore::UserWarning")


def defaults_first(launches: tuple[message.RowLaunch, ...]) -> list:
    """The two that are chosen unless asked otherwise, and the others as slow tests."""
    return [
        pytest.param(launch, id=str(launch), marks=[pytest.mark.slow] if place > 1 else [])
        for place, launch in enumerate(launches)
    ]


@warnings
@pytest.mark.parametrize(
    "launch", defaults_first(message.FORWARD_LAUNCHES) + defaults_first(message_tiles.FORWARD_TILES)
)
def test_the_message_fits_into_registers(launch: message.RowLaunch, tmp_path: Path) -> None:
    kernel = message_tiles.message_tile_kernel if launch.tile else message.message_kernel
    compiled = compile_kernel(kernel, rows(launch, HAS_MU=True), 90, launch.warps, 1 if launch.tile else 3)
    assert spilled_bytes(compiled, tmp_path) == 0
    # tiles are read in the order in which tensor cores take them: no thread hands anything to another
    assert compiled.metadata.shared == 0


@warnings
@pytest.mark.parametrize(
    "launch", defaults_first(adjoint.ADJOINT_LAUNCHES) + defaults_first(adjoint_tiles.ADJOINT_TILES)
)
def test_the_adjoint_fits_into_registers(launch: message.RowLaunch, tmp_path: Path) -> None:
    kernel = adjoint_tiles.adjoint_tile_kernel if launch.tile else adjoint.message_adjoint_kernel
    compiled = compile_kernel(kernel, rows(launch, HAS_MU=True, ADD=True), 90, launch.warps, 1 if launch.tile else 3)
    assert spilled_bytes(compiled, tmp_path) == 0
    assert compiled.metadata.shared == 0


@warnings
@pytest.mark.parametrize(("capability", "tabulated"), [(75, False), (80, True)])
def test_messages_compile_for_older_gpus_and_for_tables(capability: int, tabulated: bool) -> None:
    launch = message.RowLaunch(block=32, unroll=1)
    constants = rows(launch, HAS_MU=False) | ({"COUNT": 4, "TABLE": True} if tabulated else {})
    for kernel, more in ((message.message_kernel, {}), (adjoint.message_adjoint_kernel, {"ADD": False})):
        assert len(compile_kernel(kernel, constants | more, capability, 1).asm["cubin"]) > 1000


@warnings
def test_tiles_of_edges_stay_in_registers_on_older_gpus_too(tmp_path: Path) -> None:
    launch = message_tiles.FORWARD_TILES[0]
    for kernel, more in ((message_tiles.message_tile_kernel, {}), (adjoint_tiles.adjoint_tile_kernel, {"ADD": False})):
        for mu in (False, True):
            compiled = compile_kernel(kernel, rows(launch, HAS_MU=mu, **more), 80, launch.warps, 1)
            assert spilled_bytes(compiled, tmp_path) == 0
            assert compiled.metadata.shared == 0


@warnings
@pytest.mark.parametrize("name", TILED)
def test_tiles_fit_into_registers_and_shared_memory(name: str, tmp_path: Path) -> None:
    kernel, launches, constants = TILED[name]
    for launch in launches:
        compiled = compile_kernel(kernel, tile(launch, **constants), 90, launch.warps, launch.stages)
        assert compiled.metadata.shared <= SHARED[90]
        assert spilled_bytes(compiled, tmp_path) == 0


@warnings
@pytest.mark.parametrize(("name", "capability"), [("linear", 75), ("unmix", 75), ("unmix", 80)])
def test_small_tiles_fit_older_gpus(name: str, capability: int) -> None:
    kernel, launches, constants = TILED[name]
    launch = launches[0]
    compiled = compile_kernel(kernel, tile(launch, **constants), capability, launch.warps, launch.stages)
    assert compiled.metadata.shared <= SHARED[capability]


@warnings
@pytest.mark.parametrize("name", SMALL)
def test_lists_and_sums_compile_without_spilling(name: str, tmp_path: Path) -> None:
    kernel, constants = SMALL[name]
    compiled = compile_kernel(kernel, constants, 90, WARPS.get(name, 4))
    # ptxas keeps a few bytes for calls and predicates
    assert spilled_bytes(compiled, tmp_path) <= 16


@warnings
@pytest.mark.parametrize("name", ["molecule-fill", "pair-fill", "reverse", "forces"])
def test_lists_compile_for_the_oldest_gpu(name: str) -> None:
    kernel, constants = SMALL[name]
    assert len(compile_kernel(kernel, constants, 75).asm["cubin"]) > 1000
