"""The script's own process: `python -m phasewise.look.inside REQUEST`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import msgspec
import torch

from phasewise.look.known import AUTO, CALL, OPTIMIZER, SEEN, TRACE, Request, Seen
from phasewise.look.script import run_script
from phasewise.look.steps import Steps
from phasewise.look.window import Enough, Window
from phasewise.records.base import Scalar
from phasewise.records.verdict import Failure
from phasewise.store import write_bytes
from phasewise.workers.failure import describe_exception


def look_inside(asked: Request) -> Seen:
    """Run the script until its window has been seen, or to its end."""
    window = Window(asked.warmup, asked.steps, Path(asked.folder) / TRACE)
    steps = Steps(asked.step, window)
    steps.install()
    # the hooks that it warns of are ours
    warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are global hooks")
    function = "" if asked.step in (AUTO, OPTIMIZER, CALL) else asked.step
    failure: Failure | None = None
    status = 0
    try:
        run_script(asked, function, steps.on_function_call)
    except Enough:
        pass
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    # whatever a script raises is its own
    except Exception as error:
        failure = describe_exception(error)
    return Seen(
        is_complete=window.is_complete, kind=steps.kind, name=steps.name, steps=window.steps, needed=window.needed,
        warmup=window.warmup, calls=steps.calls, times_s=window.times_s, step_s=window.step_s,
        facts=describe_settings(steps.module), failure=None if window.is_complete else failure, exit_status=status,
        **window.tell_device(),
    )  # fmt: skip


def describe_settings(module: torch.nn.Module | None) -> dict[str, Scalar]:
    """What of torch's settings and of the outermost module decides about products."""
    found: dict[str, Scalar] = {
        "float32_matmul_precision": torch.get_float32_matmul_precision(), "threads": torch.get_num_threads(),
    }  # fmt: skip
    if module is not None:
        dtypes = sorted({str(parameter.dtype).removeprefix("torch.") for parameter in module.parameters()})
        found["parameter_dtypes"] = ", ".join(dtypes)
        found["parameters"] = sum(parameter.numel() for parameter in module.parameters())
    return found


def main() -> None:
    """The command line."""
    asked = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Request)
    seen = look_inside(asked)
    write_bytes(msgspec.json.encode(seen), Path(asked.folder) / SEEN)
    sys.exit(seen.exit_status)


if __name__ == "__main__":
    main()
