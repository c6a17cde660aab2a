"""One line that says how far a comparison is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TextIO

# between two lines, where lines can't be overwritten
SPARSE_S = 10.0


class Progress(Protocol):
    """Where a stage says how far it is."""

    def update(self, line: str) -> None:
        """Replace the line."""

    def done(self, line: str) -> None:
        """Leave the line standing."""


@dataclass
class Silent:
    """Says nothing."""

    def update(self, line: str) -> None:
        return None

    def done(self, line: str) -> None:
        return None


@dataclass
class Stream:
    """An updating line on a terminal, a line now and then elsewhere."""

    stream: TextIO
    now: Callable[[], float] = time.monotonic
    _said: float | None = field(default=None, init=False)
    _width: int = field(default=0, init=False)

    def update(self, line: str) -> None:
        if self.stream.isatty():
            self._rewrite(line, "")
        elif self._said is None or self.now() - self._said >= SPARSE_S:
            self._said = self.now()
            print(line, file=self.stream, flush=True)

    def done(self, line: str) -> None:
        if self.stream.isatty():
            self._rewrite(line, "\n")
        else:
            print(line, file=self.stream, flush=True)

    def _rewrite(self, line: str, end: str) -> None:
        self.stream.write("\r" + line.ljust(self._width) + end)
        self.stream.flush()
        self._width = 0 if end else len(line)


def to_stderr() -> Stream:
    """Progress on standard error."""
    return Stream(sys.stderr)
