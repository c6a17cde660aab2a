"""A Slurm cluster of this one machine, from Debian's packages slurm-wlm and munge: `make slurm-test` installs them."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

# where a job's own `srun` looks, which has nothing of the environment that it was submitted from
ETC = Path("/etc/slurm")
READY_S = 30.0
# a machine of a GPU that is none, without cgroups and without accounting
CONFIGURATION = """
ClusterName=phasewise
SlurmctldHost={host}
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
GresTypes=gpu
NodeName={host} CPUs={cores} RealMemory=8000 Gres=gpu:1 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
GRES = "Name=gpu File=/dev/zero\n"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The daemons of a cluster, until the tests are through."""
    if os.geteuid() or not shutil.which("slurmctld") or not shutil.which("munged"):
        pytest.skip("needs root and Debian's slurm-wlm and munge; run `make slurm-test`")
    if (ETC / "slurm.conf").exists():
        pytest.skip(f"{ETC}/slurm.conf: this machine is of a cluster already")
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    # munge refuses a folder for its socket that others may write to
    Path("/run/munge").mkdir(exist_ok=True)
    shutil.chown("/run/munge", "munge")
    files = {
        "slurm.conf": CONFIGURATION.format(host=platform.node(), folder=folder, cores=len(os.sched_getaffinity(0))),
        "gres.conf": GRES,
        "cgroup.conf": "CgroupPlugin=autodetect\n",
    }
    with ExitStack() as held:
        for name, content in files.items():
            (ETC / name).write_text(content)
            held.callback((ETC / name).unlink)
        for command in (["runuser", "-u", "munge", "--", "munged", "-F"], ["slurmctld", "-D"], ["slurmd", "-D"]):
            log = held.enter_context((folder / f"{command[-2]}.log").open("w"))
            daemon = subprocess.Popen(command, stdout=log, stderr=log)
            held.callback(daemon.wait)
            held.callback(daemon.terminate)
        deadline = time.monotonic() + READY_S
        while "idle" not in subprocess.run(["sinfo", "-h"], capture_output=True, text=True, check=False).stdout:
            assert time.monotonic() < deadline, "".join(path.read_text() for path in folder.glob("*.log"))
            time.sleep(0.2)
        yield
