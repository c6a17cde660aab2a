import os
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from phasewise.model.plain_yaml import read_yaml
from phasewise.records.errors import UserError

min_version("9.27")

# a rule fails if any command of its pipe does; its `python` is the one that runs this file. Its threads are those of the run: Snakemake gives
# a job as many as it has cores, so that what is timed would have others than what its gate judged, and such as spin while they wait
THREADS = os.environ.setdefault("OMP_NUM_THREADS", "1")
shell.prefix(
    "set -euo pipefail; "
    f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH "
    f"OMP_NUM_THREADS={THREADS} MKL_NUM_THREADS={THREADS} OPENBLAS_NUM_THREADS={THREADS}; "
)


# Snakemake would take the last of two equal keys, and unfold aliases without end
try:
    read_yaml(Path("workflow/config.yaml"))
except UserError as error:
    raise WorkflowError(str(error)) from None


configfile: "workflow/config.yaml"


# what is timed takes turns: one job, or one for each GPU that `phasewise run --gpus` names;
# the command line's `--resources` would otherwise drop the limit that keeps measurements apart
workflow.global_resources.setdefault("turn", 1)


container: "docker://condaforge/miniforge3"


include: "workflow/rules/common.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/validate.smk"
include: "workflow/rules/predict.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/headline.smk"
include: "workflow/rules/control.smk"
include: "workflow/rules/profile.smk"
include: "workflow/rules/export.smk"
include: "workflow/rules/analyse.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        GRAPH.targets(),


onstart:
    keep_others_out()
    start_forks()
