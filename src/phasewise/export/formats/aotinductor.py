"""An AOTInductor package: the program compiled ahead of time to a library, with its weights, in one .pt2 archive.

It runs on the kind of device and the processor features that it was compiled for. Loading it executes native code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import torch
from torch.export import ExportedProgram

from phasewise.export.formats.names import Names
from phasewise.workers.scratch import make_scratch

IMPORTS: tuple[str, ...] = ()
FILE = "model.aoti.pt2"
# what is asked where the named compiler won't do: the system's own may stand behind another on the PATH
OTHERS = ("g++", "/usr/bin/g++")


def missing() -> str:
    """Inductor calls a C++ compiler: CXX, else g++."""
    named = os.environ.get("CXX", "g++")
    if choose_compiler(named) is not None:
        return ""
    if shutil.which(named) is None:
        return f"needs the C++ compiler {named} (install g++ or set CXX)"
    return (
        f"{named} links a C++ runtime of its own into what it builds, which crashes beside torch's "
        "(set CXX to a compiler with a shared libstdc++)"
    )


def write(exported: ExportedProgram, names: Names, folder: Path) -> None:
    """Compile and package; takes minutes for a large graph."""
    compiler = choose_compiler(os.environ.get("CXX", "g++"))
    assert compiler is not None, "missing() was asked"
    with torch._inductor.config.patch({"cpp.cxx": (None, compiler)}):
        torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / FILE))


@lru_cache
def choose_compiler(named: str) -> str | None:
    """`named`, or g++ where what `named` builds can't be loaded beside torch; None if none will do."""
    return next((one for one in (named, *OTHERS) if shutil.which(one) and _shares_runtime(one)), None)


def _shares_runtime(compiler: str) -> bool:
    """Whether a library from `compiler` asks for the shared libstdc++, as torch's do: two of them in one process crash."""
    if sys.platform != "linux":
        return True
    with make_scratch("probe") as folder:
        source, library = folder / "probe.cpp", folder / "probe.so"
        source.write_text("#include <string>\nstd::string probe(int n) { return std::to_string(n); }\n")
        done = subprocess.run(
            [compiler, "-shared", "-fPIC", str(source), "-o", str(library)], capture_output=True, check=False
        )
        # a compiler that fails here says why when it is asked for the package; clang may bring libc++
        return bool(done.returncode) or any(name in library.read_bytes() for name in (b"libstdc++.so", b"libc++.so"))
