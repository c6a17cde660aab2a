"""The part of a traceback that is the user's: from the first frame of theirs on, with no path of this machine in it."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1])
LIBRARY = sysconfig.get_path("stdlib")
# of a file of an installed package
INSTALLED = ("site-packages", "dist-packages")
# of a traceback that goes into a record; the end tells most
CHARACTERS = 6000


def find_place(error: BaseException) -> str:
    """File and line of the user's last frame, such as "encoder.py:41"; "" where there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    own = [
        frame for frame in _find_frames(error) if not _is_installed(frame.filename) and not _is_python(frame.filename)
    ]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def format_traceback(error: BaseException) -> str:
    """As Python prints it; "" where no frame is the user's."""
    frames = _find_frames(error)
    if not frames and not isinstance(error, SyntaxError):
        return ""
    shown = [
        traceback.FrameSummary(shorten_path(frame.filename), frame.lineno, frame.name, line=frame.line)
        for frame in frames
    ]
    lines = [*traceback.StackSummary.from_list(shown).format(), *traceback.format_exception_only(error)]
    text = "".join(lines).rstrip()
    if isinstance(error, SyntaxError) and error.filename:
        text = text.replace(error.filename, shorten_path(error.filename))
    return "Traceback (most recent call last):\n" + text[-CHARACTERS:]


def shorten_path(name: str) -> str:
    """From the working directory, from the packages that are installed, or the file's name alone."""
    path = Path(name)
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    for folder in INSTALLED:
        if folder in path.parts:
            return str(Path(*path.parts[path.parts.index(folder) + 1 :]))
    return path.name


def _find_frames(error: BaseException) -> Sequence[traceback.FrameSummary]:
    """From the first that is neither ours nor of Python's own library."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((index for index, frame in enumerate(frames) if not _is_between(frame.filename)), len(frames))
    return frames[first:]


def _is_between(name: str) -> bool:
    """Whether such a frame only leads to the user's code: ours, and Python's own library."""
    return _is_python(name) or Path(name).is_relative_to(PACKAGE)


def _is_python(name: str) -> bool:
    return name.startswith("<") or (Path(name).is_relative_to(LIBRARY) and not _is_installed(name))


def _is_installed(name: str) -> bool:
    return any(folder in Path(name).parts for folder in INSTALLED)
