"""Systems as a user names them: a file that ASE reads, one of the shipped molecules, or a SMILES."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from phasewise.records.errors import UserError
from phasewise_studies.painn.data import FRAMES, load_frames


def read_structures(path: Path) -> list[Any]:
    """All frames of a file as `ase.Atoms`.

    Raises:
        UserError: ase is not installed, or finds no frames with atoms there.
    """
    need_ase()
    from ase.io import read
    from ase.io.formats import UnknownFileTypeError

    if not path.is_file():
        raise UserError(f"{path}: there is no such file; name one that ase reads, such as extended XYZ")
    try:
        frames = read(path, index=":")
    # what ASE's readers raise on a file of another kind, or a damaged one
    except (UnknownFileTypeError, OSError, ValueError, KeyError, IndexError, AttributeError, AssertionError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path}: ase reads no frames from it ({told}); extended XYZ is what is read best") from error
    if not frames:
        raise UserError(f"{path}: there are no frames in it; give at least one")
    for index, atoms in enumerate(frames):
        if len(atoms) == 0 or not np.isfinite(atoms.positions).all():
            raise UserError(f"{path}: frame {index} (from 0) has no atoms, or positions that are not finite; mend it")
    return frames


def find_structures(text: str) -> list[Any]:
    """The frames of a file, or one `ase.Atoms` of a shipped molecule's first frame or of a SMILES.

    Raises:
        UserError: it is none of these, or the package that reads it is missing.
    """
    need_ase()
    from ase import Atoms

    if Path(text).exists():
        return read_structures(Path(text))
    if (FRAMES / f"{text}.npz").exists():
        frames = load_frames(text)
        return [Atoms(frames["numbers"], frames["positions"][0].astype(float))]
    from phasewise_studies.painn.product.distil.teacher import embed

    return [embed(text, seed=1)]


def need_ase() -> None:
    """Raise UserError where ase is not installed."""
    try:
        import ase  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError("reading structures needs ase, which is not installed; pip install ase") from error
