"""The workload of a module, as a file that a person goes on from."""

from __future__ import annotations

from phasewise.adopt.known import BATCH, Known
from phasewise.adopt.suggest import Suggestion

FILE = '''"""{name} of {module}: a workload to go on from."""

from dataclasses import dataclass

from phasewise import Case, Phase, Program, Shape, Work, Workload


@dataclass(frozen=True)
class Switches:
    """Everything that a phase may change; the defaults are the baseline."""

    {switch}: bool = False


def make_inputs(case, shape, seed):
    """Canonical inputs by the names of forward's arguments: real ones in float64; the same seed gives the same bits everywhere."""
    import torch
{inputs}


def build(switches, inputs, case, shape, device):
    """From switches to a program. The reference has the weights that this seed draws, converted to float64."""
    import torch

    from {module} import {names}

    torch.manual_seed(0)
    module = {name}({init}).eval().requires_grad_(False).to(device)
{call}
    return Program(step=lambda batch: {step}, module=module)


def work(case, shape):
    """What was counted of a call: operations of products, convolutions and attention, bytes of arguments, weights and results."""
    return Work({work})


workload = Workload(
    summary="{name} of {module}",
    switches=Switches,
    cases={{"call": {case}}},
    phases=(Phase("{phase}", {{"{switch}": True}}{because}),),
)
'''
GIVEN = """
    import {module} as source

    torch.manual_seed(seed)
    given = {given}
    return {{name: x.double() if x.is_floating_point() else x for name, x in given.items() if isinstance(x, torch.Tensor)}}"""
GUESSED = """
    # guessed from the first layer: put in what is usual
    generator = torch.Generator().manual_seed(seed)
    return {{
{lines}
    }}"""


def write_workload(known: Known, module: str, suggestion: Suggestion) -> str:
    """The file. `module`: name of the module's own file, which lies beside it, or of its package."""
    names = [known.name.partition(".")[0], *(["get_init_inputs"] if known.has_init else [])]
    is_call = suggestion.switch == "compiled"
    call = suggestion.line if is_call else f"{suggestion.line}\n    call = module"
    return FILE.format(
        name=known.name, module=module, switch=suggestion.switch, phase=suggestion.switch, inputs=_write_inputs(known, module),
        names=", ".join(names), init="*get_init_inputs()" if known.has_init else "", call=f"    {call}",
        step=_write_step(known), because=f', because="{suggestion.because}"' if suggestion.because else "",
        case=f"Case(tiny=Shape(batch={BATCH}), full=Shape(batch=256))" if known.guessed else "Case(tiny=Shape(), full=Shape())",
        work=_write_work(known),
    )  # fmt: skip


def _write_work(known: Known) -> str:
    """The arguments of `Work`; what is guessed grows with its batch."""
    items, flops, size = "1", f"{known.flops:.0f}", f"{known.weight_bytes} + {known.bytes}"
    if known.guessed:
        items, flops = "shape.batch", f"{known.flops / BATCH:.0f} * shape.batch"
        size = f"{known.weight_bytes} + {known.bytes // BATCH} * shape.batch"
    return f'items={items}, flops={flops}, bytes={size}, dtype="{known.dtype}", counted=True'


def _write_inputs(known: Known, module: str) -> str:
    if known.guessed:
        return GUESSED.format(lines="\n".join(f'        "{name}": {text},' for name, text in known.guessed.items()))
    given = f"source.{known.maker}"
    if not known.by_name:
        names = ", ".join(f'"{name}"' for name in known.arguments)
        given = f"dict(zip(({names},), {given}, strict=True))"
    return GIVEN.format(module=module, given=given)


def _write_step(known: Known) -> str:
    plain = "".join(f", {name}={value}" for name, value in known.plain.items())
    called = f"call(**batch{plain})"
    if known.result == "sequence":
        return f"{{str(index): x for index, x in enumerate({called})}}"
    return f"dict({called})" if known.result == "mapping" else called
