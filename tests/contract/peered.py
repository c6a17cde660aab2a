"""A peer with a synchronisation of its own: its work runs on a thread that torch does not know."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from phasewise import Case, Peer, Phase, Program, Shape, Target, Workload


@dataclass(frozen=True)
class Switches:
    vectorised: bool = False


def make_inputs(case, shape, seed):
    import torch

    return {"x": torch.rand(shape.n, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))}


def build(switches, inputs, case, shape, device):
    import torch

    def step(batch):
        if switches.vectorised:
            return {"sum": batch["x"].sum(1)}
        return {"sum": torch.stack([row.sum() for row in batch["x"]])}

    return Program(step=step)


def numpy_thread(inputs, case, shape, device):
    """numpy on a thread of its own: `step` returns at once, `sync` waits."""
    import torch

    pool = ThreadPoolExecutor(1)
    pending: list[Future] = []

    def step(x):
        pending.append(pool.submit(x.sum, axis=1))
        return pending[-1]

    def sync():
        while pending:
            pending.pop().result()

    return Program(
        step=step,
        place=lambda batch: batch["x"].numpy().astype("float32"),
        outputs=lambda future: {"sum": torch.from_numpy(future.result())},
        sync=sync,
        close=pool.shutdown,
    )


workload = Workload(
    summary="Row sums beside numpy",
    switches=Switches,
    cases={"rows": Case(tiny=Shape(n=256))},
    phases=(Phase("vectorised", {"vectorised": True}, because="serial-loop", expect=(5, 200)),),
    peers=(Peer("numpy-thread", package="numpy"),),
    targets=(Target("speedup", against="numpy-thread", minimum=0.01),),
)
