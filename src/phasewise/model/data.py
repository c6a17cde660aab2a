"""Where a workload's prepared files lie."""

from __future__ import annotations

import os
from pathlib import Path

# set by the stages before a workload's functions are called
DATA = "PHASEWISE_DATA"


def data_folder() -> Path:
    """The folder that `prepare(folder)` was given: `data/<workload>` of the project."""
    return Path(os.environ[DATA])


def use_data_folder(folder: Path) -> None:
    """Let `data_folder()` answer `folder` in this process."""
    os.environ[DATA] = str(folder)
