"""The workload of a module, as a file that a person goes on from."""

from __future__ import annotations

from phasewise.adopt.known import Known
from phasewise.adopt.suggest import Suggestion

FILE = '''"""{name} of {module}: a workload to go on from."""

from dataclasses import dataclass

from phasewise import Case, Phase, Program, Shape, Workload


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


# operations and bytes of a step are counted by torch; a function `work` may say what is needed at least
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
        case="Case(tiny=Shape(batch=8), full=Shape(batch=256))" if known.guessed else "Case(tiny=Shape(), full=Shape())",
    )  # fmt: skip


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
