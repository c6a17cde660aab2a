"""The command line: one subcommand a stage, each a thin call that reads records, calls one function, writes one record."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from phasewise.cli.carry import files, pack, unpack
from phasewise.cli.diff import diff
from phasewise.cli.explore import init, try_variant
from phasewise.cli.judge import judge
from phasewise.cli.keep import retry, run
from phasewise.cli.look import look
from phasewise.cli.machine import doctor
from phasewise.cli.say import say
from phasewise.cli.stages import analyse, make_command, plan, prepare, report
from phasewise.cli.status import status
from phasewise.records.errors import UserError
from phasewise.records.exit_code import ExitCode
from phasewise.stages import STAGES

# as a shell has it of a command that SIGINT ended
INTERRUPTED = 128 + signal.SIGINT


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="phasewise")
def commands() -> None:
    """Make a PyTorch workload fast one phase at a time, and prove each step."""


for command in (
    diff,
    plan,
    prepare,
    analyse,
    report,
    init,
    try_variant,
    doctor,
    judge,
    look,
    retry,
    run,
    status,
    pack,
    unpack,
    files,
):
    commands.add_command(command)
for stage in STAGES.values():
    if stage.name not in commands.commands:
        commands.add_command(make_command(stage))


def keep_bytecode() -> None:
    """Have the processes of a stage keep what they compile of their imports, also where a container image says otherwise.

    Hundreds of them import the same files: on an H200 box `import torch` took 2.7 s without, 1.4 s with, its compiler 6.2 s and 2.3 s.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def keep_docstrings() -> NoReturn:
    """Start again with asserts and docstrings: libraries that draw charts read theirs, and asserts are there to stop what is wrong."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONOPTIMIZE"}
    os.execve(sys.executable, [sys.executable, "-m", "phasewise", *sys.argv[1:]], environment)


def leave_at_once() -> NoReturn:
    """End this process without waiting for threads of a stage, which still wait for theirs; those end with this one."""
    sys.stdout.flush()
    os._exit(INTERRUPTED)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: errors that a user can cure are one sentence, exit code 2, without a traceback; a fault of ours is 70, with one."""
    keep_bytecode()
    if arguments is None and sys.flags.optimize:
        keep_docstrings()
    try:
        # click returns the code of an `Exit` here instead of raising it
        code = commands.main(args=arguments, standalone_mode=False)
    except UserError as error:
        say(f"phasewise: {error}", err=True)
        sys.exit(int(ExitCode.USAGE))
    except click.ClickException as error:
        error.show()
        sys.exit(int(ExitCode.USAGE))
    except (click.Abort, KeyboardInterrupt):
        say("phasewise: interrupted", err=True)
        leave_at_once()
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            what = error.filename or "standard output or a file"
            # where standard error is as full, the code alone tells
            with contextlib.suppress(OSError):
                say(f"phasewise: {what}: can't be written ({error.strerror}); make room there", err=True)
            sys.exit(int(ExitCode.USAGE))
        # the outermost frame: a caller must not take a fault of ours for a verdict
        traceback.print_exc()
        sys.exit(int(ExitCode.OURS))
    if code:
        sys.exit(code)
