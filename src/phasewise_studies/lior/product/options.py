"""The document's configuration from a preset, a JSON file and flags; what comes later wins."""

from __future__ import annotations

import argparse
import json
import logging
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from phasewise.records.errors import UserError
from phasewise_studies.lior.product.settings import DEVELOPMENT, PRODUCTION, PROFILING, TrainConfig

log = logging.getLogger("phasewise.lior")

PRESETS = {"development": DEVELOPMENT, "production": PRODUCTION, "profiling": PROFILING}
# the document sets these too
NO_COUNTERPART = ("cudnn_benchmark", "cudnn_deterministic")
HELP = {
    "step_progress_every": "a progress line every so many steps; 0: none",
    "timing_debug": "wait after every window, and log its milliseconds",
    "use_cudagraphs": "capture the window as a CUDA graph, and replay it",
    "static_shapes": "promise that every batch has capture_batch_size tokens",
    "capture_batch_size": "tokens of a batch in the graph",
    "warmup_steps": "windows that run eagerly before the capture",
    "symmetric_nudging": "a third phase, nudged the other way",
}


def add_config(parser: argparse.ArgumentParser) -> None:
    """`--preset`, `--config`, and a flag for every setting, by the document's name."""
    group = parser.add_argument_group("the document's settings")
    group.add_argument("--preset", choices=sorted(PRESETS), help="the document's recommended settings")
    group.add_argument("--config", type=Path, help="a JSON file of the settings below")
    for setting in fields(TrainConfig):
        kind: dict[str, Any] = {"action": argparse.BooleanOptionalAction} if _is_flag(setting.name) else {"type": int}
        group.add_argument(f"--{setting.name}", default=None, help=HELP[setting.name], **kind)


def read_config(options: argparse.Namespace) -> TrainConfig:
    """The settings that the arguments of `add_config` ask for.

    :raises UserError: the file doesn't fit, or a number is negative
    """
    config = PRESETS.get(options.preset, TrainConfig())
    if options.config is not None:
        config = replace(config, **read_file(options.config))
    given = {setting.name: getattr(options, setting.name) for setting in fields(TrainConfig)}
    config = replace(config, **{name: value for name, value in given.items() if value is not None})
    for name, value in asdict(config).items():
        if value < 0:
            raise UserError(f"{name} is {value}; it has to be 0 or more.")
    return config


def read_file(path: Path) -> dict[str, Any]:
    """The settings of a JSON file; the document's two for cuDNN are told to be without effect.

    :raises UserError: it is absent, no JSON object, or holds an unknown name or a value of another type
    """
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{path}: it can't be read ({error.strerror}).") from error
    except ValueError as error:
        raise UserError(f"{path}: not sound JSON ({error}).") from error
    if not isinstance(found, dict):
        raise UserError(f"{path}: it has to hold an object of settings, and holds a {type(found).__name__}.")
    for name in NO_COUNTERPART:
        if found.pop(name, None) is not None:
            log.info("%s: no convolution is here for cuDNN to choose for; it has no effect", name)
    for name, value in found.items():
        if name not in HELP:
            raise UserError(f"{path}: {name!r} is unknown; there are {', '.join((*HELP, *NO_COUNTERPART))}.")
        wanted = bool if _is_flag(name) else int
        if type(value) is not wanted:
            raise UserError(f"{path}: {name} is {value!r}; it has to be of type {wanted.__name__}.")
    return found


def _is_flag(name: str) -> bool:
    return isinstance(getattr(TrainConfig(), name), bool)
