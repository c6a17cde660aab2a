"""A project to a box without network, and home again."""

from __future__ import annotations

from pathlib import Path

import click

from phasewise.cli.project import open_run, project_layout
from phasewise.cli.say import say
from phasewise.cli.stages import judge_run, run_stage
from phasewise.records.prepare import Prepared
from phasewise.records.profile import Profile
from phasewise.stages import ANALYSE

FOLDER = click.Path(path_type=Path)
PLACE = click.Path(path_type=Path, exists=True, file_okay=False)
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
    type=PLACE,
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
        project_layout(), folder, python=python, there="\n".join((known, *left)), extra=extra, origins=origins,
        libraries=libraries, lean=lean, say=say,
    )  # fmt: skip
    say(f"on the box: OUT=out sh {folder.name}/run.sh SECONDS TARGET..., at home: phasewise unpack out")


@click.command()
@click.argument("folder", type=FOLDER)
@click.option(
    "--replace", is_flag=True, help="Have a run that came in the place of the one on record, not added to it."
)
def unpack(folder: Path, replace: bool) -> None:
    """Take in what came back from a box in FOLDER: check it, judge its runs, render their pages and the index."""
    from phasewise.carry.unpack import unpack as take_in
    from phasewise.report import render_index, render_run

    layout = project_layout()
    taken = take_in(layout, folder, replace=replace)
    say(f"{folder}: {taken.files} files taken in, of {', '.join('/'.join(run) for run in taken.runs)}")
    if taken.left_out:
        say(f"{len(taken.left_out)} captures and exports stayed on the box; {folder / 'manifest.json'} names them")
    for workload, run in taken.runs:
        records = open_run(layout, workload, run)
        if records.find(Prepared) is None:
            say(f"{workload}/{run}: nothing was prepared, so there is nothing to judge")
            continue
        for variant in records.find_all(Profile):
            run_stage(ANALYSE, workload, run, variant)
        judge_run(workload, run)
        render_run(layout.root, workload, run)
        say(f"page: {layout.relative(layout.report(workload, run) / 'index.html')}")
    render_index(layout.root)


@click.command()
@click.argument("workload")
@click.argument("run")
@click.option("--check", is_flag=True, help="Write nothing; say whether the files here are those that are listed.")
@click.option("--forget", is_flag=True, help="Take files off the list that are not here.")
def files(workload: str, run: str, check: bool, forget: bool) -> None:
    """List a run's captures and exports, with size and hash, in files.json beside its records; any store can then serve them."""
    from phasewise.carry.kept import check_list, renew_list

    layout = project_layout()
    if check:
        say(f"{workload}/{run}: {check_list(layout, workload, run)} files are here as listed")
        return
    kept = renew_list(layout, workload, run, absent="forget" if forget else "refuse")
    say(f"{workload}/{run}: {len(kept.files)} files of {sum(one.bytes for one in kept.files) / 1e6:.1f} MB are listed")
