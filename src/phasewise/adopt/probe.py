"""Build a module and call it, in a process of its own: once to know it, or again and again to be looked at."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import torch
from torch.utils._pytree import tree_leaves

from phasewise.adopt.known import BATCH, Known
from phasewise.match.flops import watch_flops
from phasewise.match.load import BUILD_MAKER, MAKERS, build_module, find_name, find_object, load_module, make_init
from phasewise.match.side import BASE_NAMES, Side, read_side
from phasewise.records.errors import UserError
from phasewise.tensors import count_bytes

# of what is guessed
LENGTH, IMAGE = 16, 32
# calls that are enough for a look
CALLS = 60
WANTED = "define get_inputs() beside it, which gives the arguments of a call"


def probe_module(side_text: str) -> dict[str, Any]:
    """A `Side` to what is `Known` of it; raises UserError where it can't be built or called."""
    side = read_side(side_text)
    side = msgspec.structs.replace(side, name=find_name(side, BASE_NAMES))
    module = build(side)
    own = load_module(side)
    maker = next((name for name in MAKERS if callable(getattr(own, name, None))), "")
    guessed: dict[str, str] = {}
    if maker:
        given = call_maker(getattr(own, maker))
        named = name_arguments(module, given)
    else:
        guessed, named = guess_arguments(module)
    with torch.no_grad(), watch_flops() as counted:
        result = module(**named)
    known = Known(
        name=side.name,
        arguments=tuple(named),
        plain={name: repr(value) for name, value in named.items() if not isinstance(value, torch.Tensor)},
        guessed=guessed,
        maker=f"{maker}(seed)" if maker and "seed" in inspect.signature(getattr(own, maker)).parameters else f"{maker}()" if maker else "",
        by_name=bool(maker) and isinstance(given, Mapping),
        has_init=callable(getattr(own, BUILD_MAKER, None)),
        result=name_kind(result),
        flops=counted.flops,
        bytes=count_bytes([*named.values(), *tree_leaves(result)]),
        weight_bytes=count_bytes(module.state_dict().values()),
        dtype=str(_real(module)).removeprefix("torch."),
    )  # fmt: skip
    plain: dict[str, Any] = msgspec.to_builtins(known)
    return plain


def build(side: Side) -> torch.nn.Module:
    """The module in evaluation mode, as its file says that it is built."""
    found = find_object(side)
    if not (inspect.isclass(found) and issubclass(found, torch.nn.Module)):
        raise UserError(
            f"init: {side.target} is no class of modules; name one, or start from the template without --from"
        )
    return build_module(found, make_init(side, {})).eval()


def call_maker(maker: Any) -> Any:
    """What it gives for the first seed."""
    torch.manual_seed(0)
    return maker(seed=0) if "seed" in inspect.signature(maker).parameters else maker()


def name_arguments(module: torch.nn.Module, given: Any) -> dict[str, Any]:
    """The arguments of a call by their names; raises UserError where they have none, or are no tensors and plain values."""
    if isinstance(given, Mapping):
        named = dict(given)
    else:
        values = list(given) if isinstance(given, list | tuple) else [given]
        names = [one.name for one in list_parameters(module)]
        if len(names) < len(values):
            raise UserError(
                f"init: forward names {len(names)} arguments and is given {len(values)}; name each in its signature"
            )
        named = dict(zip(names, values, strict=False))
    for name, value in named.items():
        if not isinstance(value, torch.Tensor | bool | int | float | str | None):
            raise UserError(
                f"init: argument {name!r} is a {type(value).__name__}; tensors and plain values are taken, wrap the module"
            )
    return named


def list_parameters(module: torch.nn.Module) -> list[inspect.Parameter]:
    """Those of `forward` that have a name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one for one in inspect.signature(module.forward).parameters.values() if one.kind in kinds]


def guess_arguments(module: torch.nn.Module) -> tuple[dict[str, str], dict[str, Any]]:
    """An expression and a value for each tensor that `forward` needs: the first guess that it can be called with.

    Raises:
        UserError: none of them.
    """
    names = [one.name for one in list_parameters(module) if one.default is inspect.Parameter.empty]
    for expression in list_guesses(module):
        # an expression of ours, which the workload will hold
        named = {name: eval(expression, {"torch": torch, "shape": _Shape, "generator": None}) for name in names}
        named = {name: value.to(_real(module)) if value.is_floating_point() else value for name, value in named.items()}
        try:
            with torch.no_grad():
                module(**named)
        except (RuntimeError, ValueError, TypeError, IndexError):
            continue
        return dict.fromkeys(names, expression), named
    raise UserError(
        f"init: what {type(module).__name__}.forward({', '.join(names)}) takes can't be guessed from its layers; {WANTED}"
    )


class _Shape:
    batch = BATCH


def _real(module: torch.nn.Module) -> torch.dtype:
    return next((one.dtype for one in module.parameters() if one.is_floating_point()), torch.float32)


def list_guesses(module: torch.nn.Module) -> Iterator[str]:
    """Expressions for an input of the first layer that says what it takes."""
    real = "torch.randn({}, dtype=torch.float64, generator=generator)"
    for layer in module.modules():
        if isinstance(layer, torch.nn.Embedding):
            yield f"torch.randint({layer.num_embeddings}, (shape.batch, {LENGTH}), generator=generator)"
        elif isinstance(layer, torch.nn.Linear):
            yield real.format(f"shape.batch, {layer.in_features}")
            yield real.format(f"shape.batch, {LENGTH}, {layer.in_features}")
        elif isinstance(layer, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d):
            sides = ", ".join([str(IMAGE)] * len(layer.kernel_size))
            yield real.format(f"shape.batch, {layer.in_channels}, {sides}")


def name_kind(result: Any) -> str:
    """How results are nested; raises UserError where they are no tensors, or deeper."""
    values = (
        list(result.values())
        if isinstance(result, Mapping)
        else list(result)
        if isinstance(result, list | tuple)
        else [result]
    )
    if not values or not all(isinstance(one, torch.Tensor) for one in values):
        raise UserError(
            f"init: the module gives {type(result).__name__}; a tensor, or a list, tuple or dict of tensors is needed, wrap it"
        )
    return "mapping" if isinstance(result, Mapping) else "sequence" if isinstance(result, list | tuple) else "tensor"


def main() -> None:
    """`python -m phasewise.adopt.probe SIDE`: call the module again and again, to be looked at."""
    side = read_side(sys.argv[1])
    module = build(side)
    own = load_module(side)
    maker = next((name for name in MAKERS if callable(getattr(own, name, None))), "")
    named = name_arguments(module, call_maker(getattr(own, maker))) if maker else guess_arguments(module)[1]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module.to(device)
    named = {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in named.items()}
    with torch.no_grad():
        for _ in range(CALLS):
            module(**named)


if __name__ == "__main__":
    main()
