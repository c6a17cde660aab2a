"""The configuration of a run: parsed and checked once, plain values afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from phasewise.model.discover import default_source
from phasewise.model.fields import WorkloadName
from phasewise.model.parse import parse, show
from phasewise.model.plain_yaml import read_yaml
from phasewise.records.errors import PlanError
from phasewise.records.plan import Budget

if TYPE_CHECKING:
    import jsonschema

CONFIG = Path("workflow/config.yaml")
SCHEMA = Path("workflow/schemas/config.schema.yaml")

BUDGETS: Mapping[str, Budget] = {
    "quick": Budget(min_rounds=12, max_rounds=12, min_sets=1, max_sets=1, seconds=60.0),
    "standard": Budget(),
    "thorough": Budget(min_rounds=16, max_rounds=40, min_sets=10, max_sets=10, seconds=900.0),
}


@dataclass(frozen=True, kw_only=True)
class WorkloadOptions:
    """What the configuration says about one workload."""

    name: str
    source: str
    size: str | None = None
    cases: tuple[str, ...] | None = None
    phases: tuple[str, ...] | None = None
    tier: str | None = None
    ablations: str | None = None
    # "any", or "cuda": left out of the graph on a machine without an NVIDIA GPU
    where: str = "any"


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """What to run, and how long."""

    workloads: tuple[WorkloadOptions, ...]
    size: str = "auto"
    device: str = "auto"
    tier: str = "moderate"
    budget: str = "auto"
    ablations: str = "none"
    profilers: tuple[str, ...] = ("torch", "memory", "nvml", "nsys", "ncu")
    capture: str = "ends"
    exporters: tuple[str, ...] = ("torch-export", "aotinductor", "onnx", "tensorrt")
    seed: int = 0
    # numbers of a Budget, or such a mapping under the name of a budget
    measure: Mapping[str, Any] = field(default_factory=dict)


def read_configuration(path: Path, schema: Path) -> Configuration:
    """Read and check the configuration at `path` against `schema`.

    Raises:
        PlanError: one sentence with the key, its value and what is allowed.
    """
    return parse_configuration(read_yaml(path), yaml.safe_load(schema.read_text()), str(path))


def parse_configuration(plain: Any, schema: Mapping[str, Any], place: str) -> Configuration:
    """Turn the loaded YAML into a Configuration; raises PlanError as `read_configuration` does."""
    if not isinstance(plain, dict):
        raise PlanError(
            f"{place}: a mapping is needed at the top level, found {type(plain).__name__}; see the comments in it"
        )
    # a third of the start of a command that reads no configuration
    import jsonschema

    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(plain))
    if error is not None:
        raise PlanError(f"{place}: {_describe(error)}")
    options = dict(plain)
    workloads = tuple(_workload(name, values or {}, place) for name, values in options.pop("workloads").items())
    for key in ("profilers", "exporters"):
        if key in options:
            options[key] = tuple(options[key])
    configuration = Configuration(workloads=workloads, **options)
    choose_budget(configuration, "cpu", place)
    return configuration


def choose_budget(configuration: Configuration, kind: str, place: str = "configuration") -> Budget:
    """The budget for a machine of `kind` ("cpu" or "cuda"), with the overrides of `measure`: for all, and under its name."""
    name = configuration.budget
    if name == "auto":
        name = "quick" if kind == "cpu" else "standard"
    overrides = {key: value for key, value in configuration.measure.items() if key not in BUDGETS}
    overrides |= configuration.measure.get(name, {})
    budget: Budget = msgspec.structs.replace(BUDGETS[name], **overrides)
    for least, most in (("min_rounds", "max_rounds"), ("min_sets", "max_sets")):
        if getattr(budget, least) > getattr(budget, most):
            raise PlanError(
                f"{place}: measure.{least} is {getattr(budget, least)}, at most measure.{most} = {getattr(budget, most)} "
                "is allowed; raise the one or lower the other"
            )
    if budget.max_sets > 1 and budget.min_sets < 2:
        raise PlanError(
            f"{place}: measure.min_sets is 1 where up to {budget.max_sets} sets are allowed; "
            "give at least 2, from which a spread can be seen, or set max_sets: 1"
        )
    return budget


def _workload(name: str, values: Mapping[str, Any], place: str) -> WorkloadOptions:
    parse(name, WorkloadName, f"{place}: workloads")
    lists = {key: tuple(values[key]) for key in ("cases", "phases") if key in values}
    rest: dict[str, Any] = {key: value for key, value in values.items() if key not in lists} | lists
    return WorkloadOptions(name=name, source=rest.pop("source", default_source(name)), **rest)


def _describe(error: jsonschema.ValidationError) -> str:
    """One sentence: key, value, what is allowed, the cure."""
    key = ".".join(str(part) for part in error.absolute_path) or "top level"
    allowed = {
        "enum": lambda: (
            f"{show(error.instance)} is not allowed; choose one of {', '.join(map(str, error.validator_value))}"
        ),
        "type": lambda: (
            f"{show(error.instance)} has the wrong type; a value of type {_types(error.validator_value)} is needed"
        ),
        "additionalProperties": lambda: f"{_unknown(error)} not known; choose among {', '.join(sorted(_known(error)))}",
        "required": lambda: f"{error.message.split(chr(39))[1]!r} is missing; add it",
        "pattern": lambda: (
            f"{show(error.instance)} is not allowed as a name; use lower-case letters, digits and _, and no reserved name"
        ),
        "minItems": lambda: "an empty list is not allowed; name at least one or leave the key out",
        "minProperties": lambda: "no workload is named; name at least one",
        "uniqueItems": lambda: f"{show(error.instance)} names something twice; name it once",
    }
    if error.validator in allowed:
        return f"{key}: {allowed[error.validator]()}"
    bound = {
        "minimum": "at least",
        "maximum": "at most",
        "exclusiveMinimum": "more than",
        "minLength": "a length of at least",
    }
    if error.validator in bound:
        return f"{key}: {show(error.instance)} is not allowed; use {bound[error.validator]} {error.validator_value}"
    return f"{key}: {error.message}; correct it"


def _types(value: Any) -> str:
    return " or ".join(value) if isinstance(value, list) else str(value)


def _known(error: jsonschema.ValidationError) -> list[str]:
    return list(error.schema.get("properties", {}))


def _unknown(error: jsonschema.ValidationError) -> str:
    names = sorted(str(name) for name in error.instance if name not in _known(error))
    return f"{', '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'}"
