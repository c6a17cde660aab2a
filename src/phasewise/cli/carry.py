"""A project to a box without network, and home again."""

from __future__ import annotations

from pathlib import Path

import click

from phasewise.cli.project import project_layout
from phasewise.cli.say import say

FOLDER = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.argument("folder", type=FOLDER)
@click.option("--python", default="3.12", show_default=True, help="Python of the box.")
@click.option(
    "--there",
    type=FILE,
    help="What the box has already: what `python3 -m pip list --format=freeze` prints there. By default torch, triton and numpy.",
)
@click.option("--with", "extra", multiple=True, metavar="PACKAGE", help="Bring this too, such as schnetpack==2.2.0.")
@click.option("--without", "left", multiple=True, metavar="PACKAGE", help="Leave this out, and what only it requires.")
@click.option(
    "--from",
    "origins",
    multiple=True,
    type=FOLDER,
    help="Records to go on from: a folder that came back, or profiles/records/WORKLOAD/RUN.",
)
@click.option(
    "--libraries",
    type=FOLDER,
    help="A folder with libdw, libelf and libdebuginfod, if Nsight Systems lacks them there.",
)
@click.option("--lean", is_flag=True, help="Leave out prepared data and references, which the box makes anew.")
def pack(
    folder: Path,
    python: str,
    there: Path | None,
    extra: tuple[str, ...],
    left: tuple[str, ...],
    origins: tuple[Path, ...],
    libraries: Path | None,
    lean: bool,
) -> None:
    """Write into FOLDER all that a box without network needs to run this project; run.sh in it does."""
    from phasewise.carry.pack import pack as write_folder
    from phasewise.carry.wheels import USUALLY_THERE

    known = USUALLY_THERE if there is None else there.read_text()
    write_folder(
        project_layout(), folder, python=python, there="\n".join((known, *left)), extra=extra, origins=origins, libraries=libraries, lean=lean, say=say,
    )  # fmt: skip
    say(f"on the box: OUT=out sh {folder.name}/run.sh SECONDS TARGET..., at home: phasewise unpack out")
