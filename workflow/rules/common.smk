# The plan is made while this file is read: without torch, and written only where its content changed.
import yaml

from phasewise.cli.project import find_schema
from phasewise.graph import Graph, lock_project
from phasewise.model.configuration import parse_configuration
from phasewise.model.headline import MANY
from phasewise.model.layout import Layout
from phasewise.plan import find_machine, plan_runs, write_plans
from phasewise.workers.forkserver import SERVER, start_fork_server
from phasewise.workers.lock import count_shared
from phasewise.store import write_if_changed


def plan_all():
    layout = Layout(Path.cwd())
    try:
        configuration = parse_configuration(
            dict(config),
            yaml.safe_load(find_schema(layout.root).read_text()),
            "workflow/config.yaml",
        )
        machine = find_machine(layout, configuration.device)
        planned = plan_runs(configuration, layout.root, machine)
        write_if_changed(machine, layout.identity(machine.device))
        for run in planned:
            write_plans(run, layout)
    except UserError as error:
        raise WorkflowError(str(error)) from None
    return Graph(planned=planned, layout=layout)


def keep_others_out():
    try:
        lock_project(Path.cwd())
    except UserError as error:
        raise WorkflowError(str(error)) from None


def start_forks():
    """Unless this run was given a server. Not beside a GPU: what is timed there is fresh, and for the rest it has not been tried."""
    if HAS_GPU:
        os.environ.pop(SERVER, None)
    elif SERVER not in os.environ:
        start_fork_server(SETS)


GRAPH = plan_all()
# of processes, in a comparison or a headline; one is not to show how processes differ
SETS = max(
    (plan.budget.max_sets for run in GRAPH.planned for plan in run.variants), default=1
)
SETS = max(SETS, MANY) if SETS > 1 else 0
# what is timed has all cores for itself, or its share where several GPUs are at work
TURN = workflow.global_resources["turn"]
TURNS = int(getattr(TURN, "value", TURN))
CORES = max(1, workflow.cores // TURNS)
# gates take no times, so they run side by side; beside a GPU most of one is imports, builds and a reference
HAS_GPU = any(run.run_plan.device != "cpu" for run in GRAPH.planned)
# what a cluster has to give each job that runs the workload; nothing is held back by it on one machine
GPU_EACH = 1 if HAS_GPU else 0
GATE_CORES = min(2, CORES) if HAS_GPU else max(1, CORES // 2)
# of several GPUs all but one are for gates: most of what is timed waits for these, and a baseline takes minutes
SHARED = count_shared(TURNS)
GATES = max(1, (CORES * SHARED if TURNS > 1 else workflow.cores) // GATE_CORES)
workflow.global_resources.setdefault("gate", GATES)
# on a GPU: much of a profile is imports and reading, so they run side by side, and one at a time captures on each
PROFILES = 3 if HAS_GPU else 1
workflow.global_resources.setdefault("profile", PROFILES)
# above all that is timed
GATES_FIRST = sum(len(run.variants) for run in GRAPH.planned)
# above gates, too: a second of one core, and the next of a chain waits for it
ANALYSES_FIRST = 2 * GATES_FIRST
RECORDS = "profiles/records/{workload}/{run}"


wildcard_constraints:
    workload="[a-z][a-z0-9_]*",
    run="(tiny|small|full)-[a-z0-9]+",
    variant="[a-z0-9][a-z0-9-]*",
    case="[a-z0-9][a-z0-9-]*",
