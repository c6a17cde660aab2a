"""Errors that a user can cure: one sentence, exit code 2, no traceback."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

P = ParamSpec("P")


class UserError(ValueError):
    """One sentence with the place, the value, what is allowed and the cure."""


class PlanError(UserError):
    """A workload or configuration from which no plan can be made."""


class RecordError(UserError):
    """A record that cannot be read: corrupt, of another schema, or of another kind."""


def report_errors(main: Callable[P, None]) -> Callable[P, None]:
    """`main` of a script: a UserError is one line behind the script's name on stderr, and exit code 2."""

    @functools.wraps(main)
    def reporting(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            main(*args, **kwargs)
        except UserError as error:
            print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
            sys.exit(2)

    return reporting
