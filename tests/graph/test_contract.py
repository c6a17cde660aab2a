"""One graph runs a small workload for each shape of the contract; then what each of them is there to show."""

from __future__ import annotations

import json

import jsonschema
import pytest

from graph.projects import CONTRACT, REPOSITORY, lend, make_project, share, unreadable

# the first test of a project runs its graph
pytestmark = pytest.mark.timeout(900)
SHAPES = sorted(path.stem for path in CONTRACT.glob("*.py"))
# which of these it is hangs on the machine; what a status needs is tested where the clock is injected
JUDGED = {"FASTER", "SAME", "SLOWER", "INCONCLUSIVE"}
SUMMARY = json.loads((REPOSITORY / "src/phasewise/analyse/summary.schema.json").read_text())
# profiles and exports cost as much as the rest: shapes whose programs ask for them have a project of their own;
# what "more" shapes show of a gate, a process or a stage alone is tested where that is, in seconds
APART = {
    "group": "profiled", "training": "profiled", "layout": "exported",
    **dict.fromkeys(("alternatives", "memory", "prepared", "sampling", "slow"), "more"),
}  # fmt: skip
OPTIONS = {
    "plain": {"profilers": []},
    "more": {"profilers": []},
    "profiled": {"profilers": ["torch"]},
    "exported": {"profilers": [], "exporters": ["torch-export"]},
}


@pytest.fixture
def read_shape(tmp_path_factory, lender):
    """The project in which a contract workload ran with its like; all that was planned for it is on record."""

    def read(name):
        kind = APART.get(name, "plain")
        shapes = [shape for shape in SHAPES if APART.get(shape, "plain") == kind]

        def make(folder):
            project = make_project(folder, {shape: CONTRACT / f"{shape}.py" for shape in shapes}, **OPTIONS[kind])
            lend(lender, project)
            project.run()

        project = share(tmp_path_factory, f"contract-{kind}", make)
        for row in project.read(name, "", "plan")["variants"]:
            # the headline has the rounds of a peer
            wanted = {"plan", "capture.plan", "validate"} | ({"measure"} if row["kind"] != "peer" else set())
            wanted |= {"profile", "analyse"} if row["kind"] in ("baseline", "phase") else set()
            found = {path.name.removesuffix(".json") for path in project.records(name, row["variant"]).glob("*.json")}
            assert wanted <= found, row["variant"]
        for case in project.read(name, "", "plan")["cases"]:
            assert {"rounds", "skipped"} <= project.read(name, "", f"headline.{case}")["measured"].keys()
            assert {"rounds", "skipped"} <= project.read(name, "", f"control.{case}")["measured"].keys()
        assert not unreadable(project.folder.rglob("*.json"))
        jsonschema.validate(project.summary(name), SUMMARY)
        assert "Traceback" not in project.page(name)
        return project

    return read


def gates(project, name):
    """Outcome of each variant in each case."""
    story = project.read(name, "", "plan")
    return {
        (row["variant"], case["case"]): case["outcome"]
        for row in story["variants"]
        for case in project.read(name, row["variant"], "validate")["cases"]
    }


def phase_row(summary, phase, case=None):
    """A phase's row in the summary, of the headline case by default."""
    found = summary if case is None else next(one for one in summary["cases"] if one["case"] == case)
    return next(row for row in found["phases"] if row["phase"] == phase)


def steps_of(project, name, variant):
    """Arms with their samples that were taken of the only case."""
    case = project.read(name, variant, "measure")["cases"][0]
    return {sample["arm"] for taken in case["rounds"] for sample in taken["samples"]}


def test_every_shape_of_work_has_a_test_here():
    named = {name.removeprefix("test_shape_") for name in globals() if name.startswith("test_shape_")}
    assert named == set(SHAPES) and len(SHAPES) == 11


def test_the_tutorials_workload_goes_through_the_whole_graph_outside_the_repository(tmp_path, lender):
    text = (REPOSITORY / "docs/tutorial.md").read_text()
    code = text.split("<!-- workload -->")[1].split("```python\n")[1].split("```")[0]
    project = make_project(tmp_path / "project", {"distances": code})
    lend(lender, project)
    project.call("phasewise", "run")
    row = phase_row(project.summary("distances"), "broadcast")
    assert row["validation"] == "pass" and row["status"] in JUDGED
    assert project.summary("distances")["targets"][0]["value"] == row["speedup_baseline"]["estimate"]
    assert "Distances between all pairs of points" in (project.folder / "reports/index.html").read_text()


def test_shape_training(read_shape):
    """A training step: outputs, gradients and optimizer state are compared with the reference, and it resumes."""
    project = read_shape("training")
    assert set(gates(project, "training").values()) == {"pass"}
    top = project.case("training", "01-foreach", "validate", "train-step")
    errors = {(error["kind"], error["name"]) for error in top["errors"]}
    assert {("output", "loss"), ("state", "w1"), ("state", "moment/w1"), ("gradient", "grad/w1")} <= errors
    assert {check["check"]: check["outcome"] for check in top["checks"]} == {"resume": "pass"}
    assert not project.case("training", "02-accumulate", "validate", "train-step")["checks"]
    assert phase_row(project.summary("training"), "foreach")["risks"] == [
        {
            "title": "Resume differs",
            "outcome": "did not come true",
            "evidence": "resume on train-step: 2 steps after resuming, outputs and state are the same",
        }
    ]
    rate = project.summary("training")["targets"][0]
    assert rate["metric"] == "items_per_s" and rate["value"] > 1 and rate["level"] == "minimum"


def test_shape_two_cases(read_shape):
    """A phase touches its own case alone, and the other case's parent stays the baseline."""
    project = read_shape("two_cases")
    assert set(gates(project, "two_cases")) >= {("01-vectorised", "rows"), ("02-inplace", "scale")}
    assert ("01-vectorised", "scale") not in gates(project, "two_cases")
    summary = project.summary("two_cases")
    assert phase_row(summary, "inplace", "scale")["parent"] == "00-baseline"
    # the switch of a phase that does not apply to this case stays as it is
    assert {name for name, on in phase_row(summary, "inplace", "scale")["switches"].items() if on} == {"inplace"}
    assert phase_row(summary, "inplace", "rows")["reason"] == "case-not-chosen"
    assert {case["case"]: case["stack"]["variant"] for case in summary["cases"]} == {
        "rows": "01-vectorised",
        "scale": "02-inplace",
    }
    for case, end in (("rows", "01-vectorised"), ("scale", "02-inplace")):
        headline, control = (project.read("two_cases", "", f"{name}.{case}") for name in ("headline", "control"))
        # both ends stand on the baseline, so their own rounds are the headline
        assert headline["own_of"] == end and not headline["measured"]["arms"]
        measured = next(one for one in project.read("two_cases", end, "measure")["cases"] if one["case"] == case)
        assert [(arm["arm"], arm["variant"]) for arm in measured["arms"]] == [
            ("parent", "00-baseline"),
            ("variant", end),
        ]
        control = control["measured"]
        assert [(arm["arm"], arm["variant"]) for arm in control["arms"]] == [("parent", end), ("variant", end)]


@pytest.mark.slow
def test_shape_alternatives(read_shape):
    """An alternative is measured and not built upon; what the gate has to refuse is refused, and never timed."""
    project = read_shape("alternatives")
    summary = project.summary("alternatives")
    assert phase_row(summary, "einsum")["kept"] is False
    assert phase_row(summary, "matmul")["parent"] == "00-baseline"
    assert phase_row(summary, "matmul")["status"] in JUDGED
    half = phase_row(summary, "half")
    assert (half["status"], half["reason"], half["validation"]) == ("INVALID", "expected-invalid", "fail")
    assert half["time_s"] is None and not project.read("alternatives", "03-half", "measure")["cases"][0]["rounds"]
    assert summary["stack"]["variant"] == "02-matmul"


def test_shape_layout(read_shape):
    """Another layout inside, canonical outputs outside; placing the batch counts, and is on record by itself."""
    project = read_shape("layout")
    assert set(gates(project, "layout").values()) == {"pass"}
    arm = project.case("layout", "01-columns", "measure", "points")["arms"][-1]
    assert arm["variant"] == "01-columns" and min(arm["place_s"]) > 0
    # a program without a module is no reason to stop
    export = project.read("layout", "01-columns", "export")["results"][0]
    assert (export["target"], export["status"]) == ("torch-export", "skipped")


@pytest.mark.slow
def test_shape_memory(read_shape):
    """What runs out of memory is a result; what runs in its place is ENABLED."""
    project = read_shape("memory")
    summary = project.summary("memory")
    failed = project.case("memory", "00-baseline", "measure", "pairs")["arms"][-1]["failure"]
    assert failed["reason"] == "oom"
    assert summary["baseline"]["status"] == "FAILED" and summary["baseline"]["time_s"] is None
    row = phase_row(summary, "product")
    assert (row["status"], row["reason"]) == ("ENABLED", "parent-cannot-run")
    assert row["time_s"] > 0 and row["speedup_baseline"] is None
    assert row["peak_memory_bytes"] < 200_000_000


def test_shape_group(read_shape):
    """Two processes are one arm: both are timed, the slower one counts."""
    project = read_shape("group")
    assert set(gates(project, "group").values()) == {"pass"}
    arms = {arm["variant"]: arm for arm in project.case("group", "01-two-ranks", "measure", "sum")["arms"]}
    assert arms["01-two-ranks"]["ranks"] == 2 and arms["00-baseline"]["ranks"] == 1
    assert arms["01-two-ranks"]["failure"] is None
    assert {"variant", "parent"} <= steps_of(project, "group", "01-two-ranks")
    row, efficiency = phase_row(project.summary("group"), "two-ranks"), project.summary("group")["targets"][0]
    assert efficiency["metric"] == "scaling_efficiency" and row["status"] in JUDGED
    if row["speedup_previous"] is None:
        # a busy machine: every round was dropped, and no efficiency is told
        assert row["status"] == "INCONCLUSIVE" and efficiency["value"] is None and efficiency["reason"]
    else:
        assert efficiency["value"] == pytest.approx(row["speedup_previous"]["estimate"] / 2)


@pytest.mark.slow
def test_shape_slow(read_shape):
    """A baseline that is too slow is measured at smaller shapes, and nothing is said of it at the case's own."""
    project = read_shape("slow")
    base = project.case("slow", "00-baseline", "measure", "rows")
    assert base["stopped"] == "scale"
    assert [point["items"] for point in base["scale"]] == [2000, 4000] and not base["rounds"]
    # a phase is compared with a phase at the real shape, where nothing stands beside the end of the stack
    assert steps_of(project, "slow", "02-squared") == {"parent", "variant"}
    assert project.read("slow", "", "headline.rows")["measured"]["skipped"]["reason"] == "no-valid-parent"
    row = phase_row(project.summary("slow"), "vectorised")
    assert (row["status"], row["reason"]) == ("INCONCLUSIVE", "smaller-shapes")
    assert row["speedup_baseline"] is None and row["time_s"] > 0


@pytest.mark.slow
def test_shape_prepared(read_shape):
    """What prepare made is on record with its hash, and read by every later stage."""
    project = read_shape("prepared")
    (artifact,) = project.read("prepared", "", "prepare")["artifacts"]
    assert artifact["path"] == "data/prepared/table.npy" and len(artifact["sha256"]) == 64
    assert set(gates(project, "prepared").values()) == {"pass"}
    assert phase_row(project.summary("prepared"), "gather")["status"] in JUDGED


@pytest.mark.slow
def test_shape_sampling(read_shape):
    """A sampler's counts are state; its draws are the reference's, and fit their distribution."""
    project = read_shape("sampling")
    found = project.case("sampling", "01-search", "validate", "draw")
    assert found["outcome"] == "pass"
    assert ("state", "counts") in {(error["kind"], error["name"]) for error in found["errors"]}
    (check,) = found["checks"]
    assert (check["check"], check["outcome"]) == ("chi-square", "pass")
    assert check["numbers"]["statistic"]["value"] > 0


def test_shape_peered(read_shape):
    """A peer that works on a thread of its own is waited for, validated, and set against our last variant."""
    project = read_shape("peered")
    assert gates(project, "peered")["peer-numpy-thread", "rows"] == "pass"
    (peer,) = project.summary("peered")["peers"]
    assert peer["name"] == "numpy-thread" and peer["variant"] == "01-vectorised"
    assert peer["time_s"] > 0 and peer["ratio"]["low"] <= peer["ratio"]["estimate"] <= peer["ratio"]["high"]
    assert project.summary("peered")["targets"][0]["against"] == "numpy-thread"
    assert project.summary("peered")["targets"][0]["value"] == pytest.approx(peer["ratio"]["estimate"])


def test_shape_checked(read_shape):
    """Numbers and charts of a check reach the report, and a target may stand on one of its numbers."""
    project = read_shape("checked")
    (check,) = project.case("checked", "01-fused", "validate", "window")["checks"]
    drift = check["numbers"]["drift"]["value"]
    assert 0 < drift < 0.02 and len(check["chart"]["series"][0]["y"]) == 8
    target = project.summary("checked")["targets"][0]
    assert target["metric"] == "drift" and target["value"] == pytest.approx(drift)
    assert target["level"] in ("minimum", "target")
    page = project.pages("checked")
    assert "energy-drift" in page and "Energy" in page and "oscillator" in page
    assert "Users notice" in page and "nobody can check that here" in page
