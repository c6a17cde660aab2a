"""The trainer as programs: inputs, the build of every variant, the reference, the declared work, and what export writes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from phasewise import Program, Shape, Work
from phasewise_studies.lior.data import BATCH, draw, name_report
from phasewise_studies.lior.product.step import Step
from phasewise_studies.lior.product.trainer import open_trainer
from phasewise_studies.lior.reference import reference  # noqa: F401  (the core looks for it here)
from phasewise_studies.lior.switches import Switches
from phasewise_studies.lior.window import COORDINATES, read_sizes

# the cases of 8 tokens have the same module with other sizes: to compile it again takes a minute and tells nothing
EXPORTED = ("feedback-32", "open-32")


def make_inputs(case: str, shape: Shape, seed: int) -> dict[str, Tensor]:
    """A batch of tokens, targets and values, with the maps and the state at the start; float64 and int64."""
    return draw(read_sizes(shape), seed)


def build(switches: Switches, inputs: Mapping[str, Tensor], case: str, shape: Shape, device: torch.device) -> Program:
    """One variant: placed batch -> LIoR, curvature and speed of each phase (P,), and retrieved states (P, S, B, d)."""
    dtype = torch.get_default_dtype()

    def place(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: batch[name].to(device, dtype, copy=True) for name in BATCH}

    sizes = read_sizes(shape)
    trainer = open_trainer(switches, inputs, sizes, device, example=place(inputs))
    return Program(
        step=trainer.run,
        place=place,
        load=trainer.window.load,
        state=trainer.window.state,
        outputs=name_report,
        module=Step(inputs, sizes, device) if case in EXPORTED else None,
        fallbacks=trainer.fallbacks,
        facts={"mix": switches.mix},
    )


def work(case: str, shape: Shape) -> Work:
    """One window pair: what has to be read and written once, and the products that no rearrangement avoids."""
    sizes = read_sizes(shape)
    rows = sizes.steps * sizes.phases * sizes.batch
    # the mix; three operations a coordinate, root and exponential for each cost
    flops = rows * sizes.bank * (2 * sizes.state + 3 * COORDINATES + 8)
    # nine additions, four products, a modulus for each point of the field and step
    fields = sizes.phases if sizes.feedback else 1
    flops += fields * sizes.steps * sizes.components * sizes.points * 20
    # bank and field are read, the field is written, every retrieved state is written
    size = 4 * (sizes.bank * (sizes.state + COORDINATES) + 4 * sizes.components * sizes.points + rows * sizes.state)
    # mixed on tensor cores in halves: the rate that bounds it is that of half precision
    return Work(items=1, flops=flops, bytes=size, working_set_bytes=size, dtype="float16", item="window pairs")
