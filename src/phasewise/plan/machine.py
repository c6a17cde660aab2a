"""The machine that plans are made for."""

from __future__ import annotations

import os
import re

from phasewise.environment import detect
from phasewise.model.layout import Layout
from phasewise.model.needs import MACHINE
from phasewise.records.errors import PlanError
from phasewise.records.machine import Machine
from phasewise.store import read

DEVICE_NAME = re.compile(r"[a-z0-9]+")


def find_machine(layout: Layout, prefer: str) -> Machine:
    """This machine, or the one on record that `PHASEWISE_MACHINE` names: a login node plans for its nodes.

    Raises:
        PlanError: no machine of that name is on record.
    """
    name = os.environ.get(MACHINE)
    if not name:
        return detect(prefer)
    if not DEVICE_NAME.fullmatch(name) or not layout.identity(name).is_file():
        known = sorted(path.name.partition(".")[0] for path in layout.identity("x").parent.glob("*.identity.json"))
        raise PlanError(
            f"{MACHINE}: {name!r} is not on record; choose among {', '.join(known) or 'none'}, "
            "or call `phasewise plan` on that machine first"
        )
    return read(layout.identity(name), Machine)
