"""Energies and forces of molecules and boxes with PaiNN: from a loop over molecules to one graph a step."""

from __future__ import annotations

from phasewise import Case, Check, Idea, Needs, Peer, Phase, Shape, Target, Workload
from phasewise_studies.painn.goals import CORRECTNESS, GAIN, NUMERICS, PARTS, STALE, TARGETS, TIERS
from phasewise_studies.painn.switches import EVERYTHING, Switches

# width of the models at tiny: a box at the full width takes a CPU a second a step
TINY = 64
WIDTH = 128

CUDA = Needs(cuda=True)
TRITON = Needs(cuda=True, modules=("triton",), capability=(7, 5))


def environment(switches: Switches) -> dict[str, str]:
    """What must stand before anything is imported: jax takes no memory before it needs it."""
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def molecules(task: str, full: int, *, tiny: int = 1) -> dict[str, Shape]:
    """Ethanol on a CPU, aspirin on a GPU."""
    return {
        "tiny": Shape(system="ethanol", count=tiny, features=TINY, task=task),
        "small": Shape(system="aspirin", count=full, features=WIDTH, task=task),
        "full": Shape(system="aspirin", count=full, features=WIDTH, task=task),
    }


def boxes(system: str, task: str, tiny: str, small: str, full: str) -> dict[str, Shape]:
    """A periodic system at each size."""
    moving = task == "step"
    return {
        "tiny": Shape(system=system, repeat=tiny, features=TINY, task=task, moving=moving),
        "small": Shape(system=system, repeat=small, features=WIDTH, task=task, moving=moving),
        "full": Shape(system=system, repeat=full, features=WIDTH, task=task, moving=moving),
    }


# one molecule's module is what is exported: the programs of the other cases have none
CASES = {
    "aspirin": Case(**molecules("forces", 1), inputs="resident"),
    "energy": Case(**molecules("energy", 1), inputs="resident", export=False),
    # the document's own batch
    "batch-4": Case(**molecules("forces", 4, tiny=4), inputs="resident", export=False),
    # 20 to 49 atoms
    "batch-1024": Case(
        tiny=Shape(system="ethanol", count=12, features=TINY, task="forces"),
        small=Shape(system="drugs", count=128, features=WIDTH, task="forces"),
        full=Shape(system="drugs", count=1024, features=WIDTH, task="forces"),
        inputs="resident",
        steps=2,
        export=False,
        baseline_at={
            "full": tuple(Shape(system="drugs", count=n, features=WIDTH, task="forces") for n in (12, 24)),  # type: ignore[dict-item]
        },
    ),
    # the field's own box: 1,296 atoms of ice Ih, one step of NVE
    "ice-1296": Case(**boxes("ice", "step", "1x1x1", "3x2x2", "6x3x3"), inputs="resident", export=False),
    "box-10k": Case(**boxes("water", "forces", "2x2x2", "8x8x8", "15x15x15"), inputs="resident", steps=2, export=False),
    "box-100k": Case(
        full=Shape(system="water", repeat="33x33x33", features=WIDTH, task="forces"),
        inputs="resident",
        steps=2,
        export=False,
        # eager keeps 28.3 kB for each of 5.8 million edges, 153 GiB: more than an H200 has, and the rest is its neighbours'
        memory_limit_bytes={"full": 120 << 30},
    ),
    "list-512x64": Case(
        tiny=Shape(system="clusters", count=4, features=TINY, task="list"),
        small=Shape(system="clusters", count=512, features=WIDTH, task="list"),
        full=Shape(system="clusters", count=512, features=WIDTH, task="list"),
        inputs="resident",
        steps=2,
        export=False,
    ),
    "list-8192": Case(**boxes("water", "list", "3x3x3", "8x8x8", "14x14x14"), inputs="resident", export=False),
}

LATENCY = ("aspirin",)
THROUGHPUT = ("batch-1024",)
# each phase is measured where it can show what it is worth: launches at one molecule, traffic and arithmetic at 1024
LADDER = (*LATENCY, *THROUGHPUT)
# boxes take the whole stack at once
LARGE = (*LADDER, "box-10k")
LISTS = ("list-512x64", "list-8192")

PHASES = (
    Phase(
        "batched", {"batched": True}, because="serial-loop", part="phase-3a", cases=("batch-4", "batch-1024"),
        expect=(2, 800), documented=(3.42, 3.42), method="all systems in one pass",
    ),
    Phase(
        "index-select", {"batched": True, "gather": "select", "places": True}, because="small-kernels", part="phase-3a",
        cases=LATENCY, expect=(1.05, 1.6), method="index_select; a list in a fixed number of places",
    ),
    Phase(
        "analytic-forces", {"batched": True, "gather": "select", "places": True, "forces": "analytic"},
        because=Idea("317 operators by hand against 274 by autograd: alone it gains nothing, it makes the rest possible"),
        part="week-1", cases=LADDER, expect=(0.8, 1.4), documented=(1.8, 2.0), method="hand-derived adjoint, no autograd",
        targets=(Target("speedup", case="aspirin", against="parent", minimum=1.5, target=1.8, stretch=2.0),),
        risks=(NUMERICS,), stays="the kernels, the export and the graph after it stand on the adjoint, which autograd has none of",
    ),
    Phase(
        "tf32", {"precision": "tf32"}, because="matmul-in-fp32", cases=("batch-1024",), expect=(1.0, 1.3), keep=False,
        must="INVALID", method="products in TF32: an ablation that the moderate tier refuses",
    ),
    Phase(
        "bfloat16", {"precision": "bfloat16"}, because="matmul-in-fp32", cases=("batch-1024",), expect=(1.0, 1.4),
        keep=False, must="INVALID", method="products in bfloat16: an ablation that every tier refuses",
    ),
    Phase(
        "compile", {"compiled": True}, because="fusible-chain", part="week-1", cases=LATENCY, expect=(1.5, 5),
        method="torch.compile of the analytic model",
    ),
    Phase(
        "triton-neighbours", {"batched": True, "places": True, "neighbours": "triton"}, because="small-kernels",
        part="weeks-2-3", cases=(*LATENCY, *LISTS), expect=(1.02, 4), documented=(2, 3), needs=TRITON,
        method="counting list in fixed places, cells for boxes, no atomics on floats", risks=(CORRECTNESS, GAIN),
    ),
    Phase(
        "triton-message", {"neighbours": "triton", "message": "triton", "compiled": True}, because="excess-traffic",
        part="weeks-2-3", cases=LADDER, expect=(1.3, 8), documented=(1.5, 2.0), needs=TRITON,
        method="filter, gather and sum by rows, forwards and backwards", risks=(CORRECTNESS,),
        stays="one molecule is launches, which the graph takes away; many molecules are bytes, which this kernel saves",
    ),
    Phase(
        "pruned", {"pruned": True}, because=Idea("mu is 0 before the first message and unread after the last update"),
        part="weeks-2-3", cases=THROUGHPUT, expect=(1.02, 1.2), method="what can't matter is left out, exactly",
    ),
    Phase(
        "triton-forces", {"assembly": "triton"}, because="small-kernels", part="weeks-2-3", cases=LATENCY,
        expect=(1.0, 1.3), documented=(1.5, 2.0), needs=TRITON, method="forces by rows over opposite edges",
        risks=(CORRECTNESS,),
    ),
    Phase(
        # with what the case was not measured with on its own: pruned at one molecule, triton-forces at 1024
        "tf32x3", {"atoms": "triton", "precision": "tf32x3", "pruned": True, "assembly": "triton"},
        because="matmul-in-fp32", part="weeks-2-3", cases=LADDER, expect=(1.0, 1.8),
        needs=Needs(cuda=True, modules=("triton",), capability=(8, 0)),
        method="dense layers fused, as three TF32 products with weights split beforehand; here one molecule is pruned too, and 1024 sum forces by rows",
        risks=(NUMERICS,),
    ),
    Phase(
        "filter-table", {"table": True}, because=Idea("a filter is a function of one number: 4 multiply-adds a value for 21"),
        part="weeks-2-3", cases=THROUGHPUT, expect=(0.4, 1.1), keep=False, needs=TRITON,
        method="cubic Hermite table of 512 knots, 6 kB of it read for each edge and layer",
    ),
    Phase(
        "cuda-graph", {"graph": True}, because="launch-gaps", part="week-4", cases=LADDER, expect=(1.0, 10),
        documented=(1.2, 1.3), needs=CUDA, method="list, energies and forces in one CUDA graph", risks=(STALE,),
    ),
    Phase(
        "whole-step", {**EVERYTHING, "graph": True}, because=Idea("all of the above at once, where the steps were not timed"),
        part="week-4", onto="batched", cases=("energy", "ice-1296", "box-10k", "box-100k"), expect=(2, 60), needs=TRITON,
        method="the whole stack in one CUDA graph", risks=(STALE,),
    ),
    Phase(
        "multi-stream", {"streams": 4}, because="underfilled-device", part="week-4", cases=THROUGHPUT,
        expect=(0.85, 1.05), documented=(1.1, 1.2), keep=False, needs=CUDA, method="quarters of the batch on four streams",
    ),
    Phase(
        "autotune", {"tuned": True}, because="low-occupancy", part="week-4", cases=(*LADDER, "ice-1296", "box-10k"),
        expect=(0.98, 1.15), documented=(1.05, 1.1), needs=TRITON,
        method="rows and features of a program, and tiles of the dense layers, chosen by timing",
    ),
)  # fmt: skip

PEERS = (
    Peer("schnetpack", package="schnetpack", needs=Needs(modules=("schnetpack",)), cases=LARGE),
    Peer("schnetpack-select", package="schnetpack", needs=Needs(modules=("schnetpack",)), cases=("aspirin",)),
    Peer(
        "schnetpack-compiled", package="schnetpack", needs=Needs(cuda=True, modules=("schnetpack",)), cases=("aspirin",)
    ),
    Peer("compiled-analytic", package="torch", needs=CUDA, cases=LADDER),
    Peer("jax-jit", package="jax", needs=Needs(modules=("jax",)), cases=LATENCY),
    # one box: both walk the systems of a batch one after the other, torch-nl with a dozen waits for the device in each
    Peer("vesin-list", package="vesin", needs=Needs(modules=("vesin",)), cases=("list-8192",)),
    Peer("torch-nl-list", package="torch-nl", needs=Needs(modules=("torch_nl",)), cases=("list-8192",)),
    Peer("nvalchemi-list", package="nvalchemi-toolkit-ops", needs=Needs(modules=("nvalchemiops", "warp")), cases=LISTS),
)

workload = Workload(
    summary="Energies and forces with PaiNN: molecules, ice and boxes of water",
    switches=Switches,
    program="phasewise_studies.painn.program",
    environment=environment,
    cases=CASES,
    parts=PARTS,
    phases=PHASES,
    peers=PEERS,
    tiers=TIERS,
    checks=(
        Check("momentum", when="kept", cases=LARGE),
        Check("symmetries", when="kept", cases=LATENCY),
        Check("smooth-at-cutoff", when="kept", cases=LATENCY),
        Check("batch-equals-single", when="kept", cases=("batch-4", "batch-1024")),
        Check("padded-equals-unpadded", when="final", cases=("aspirin", "box-10k")),
        Check("overflow-refused", when="final", cases=("aspirin", "box-10k")),
        Check("finite-differences", when="final", cases=LATENCY),
        Check("nve-drift", when="final", cases=LATENCY),
        Check("time-reversible", when="final", cases=LATENCY),
        Check("energy-order", when="final", cases=LATENCY),
        Check("bitwise-repeatable", when="final", cases=("aspirin", "box-10k")),
        Check("kernels-repeatable", when="final", cases=(*LARGE, *LISTS)),
    ),
    targets=TARGETS,
    considered={
        "bfloat16 products": "1.2 to 1.8e-2 eV/A off, over the relaxed tier",
        "TorchScript": "deprecated in PyTorch 2.10; torch.export and AOTInductor take its place",
        "one persistent kernel a step": "18 to 20 grid barriers; a floor near 40 us where a graph of kernels has 60 to 100",
        "TensorNet of torchmd-net as a peer": "version 2.4 is built for CUDA 12 and its torch, 3.1 wants warp-lang of 142 MiB; and another model's time "
        "tells little of this one's",
        "one block a molecule": "right for 132 molecules and more, and seven times slower than many blocks for one",
    },
)
