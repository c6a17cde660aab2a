"""The documentation names everything that a user can type, and its code runs."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from phasewise.cli import commands
from phasewise.export.variant import export_case
from phasewise.model.discover import load_workload
from phasewise.records.export import ExportStatus
from phasewise.records.finding import FindingId
from phasewise.records.plan import Allowance
from phasewise.records.validate import Outcome
from phasewise.validate.case import validate_case
from plans import make_baseline, make_plan

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def readme():
    return (Path(__file__).parents[1] / "README.md").read_text()


def test_every_subcommand_is_in_the_readme_and_has_help(readme):
    for name, command in commands.commands.items():
        assert re.search(rf"phasewise.*`?\b{name}\b", readme), name
        assert command.help, name


def test_every_configuration_key_is_in_the_readme_and_commented_in_the_file(repository, readme):
    schema = yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())
    text = (repository / "workflow/config.yaml").read_text()
    for key in schema["properties"]:
        assert f"`{key}`" in readme, key
        assert re.search(rf"^#.*\n{key}:", text, re.M), key


def test_every_finding_is_in_the_generated_catalogue(repository):
    from phasewise.analyse.catalogue import render_catalogue

    text = (repository / "docs/findings.md").read_text()
    assert text == render_catalogue(), "run `make tables`"
    for finding in FindingId:
        assert f"## {finding}" in text


@pytest.mark.parametrize("stage", ["analyse", "export", "measure.variant", "plan", "profile", "report", "validate"])
def test_a_stage_is_imported_without_torch_and_scipy(stage):
    """A graph has hundreds of short jobs: what an import takes, each of them takes."""
    code = f"import sys, phasewise.{stage}; sys.exit(bool({{'torch', 'scipy'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_source_file_is_long(repository):
    for path in (repository / "src").rglob("*.py"):
        assert "tests" in path.parts or len(path.read_text().splitlines()) <= 300, path


def test_the_environment_file_and_the_extras_name_what_was_asked_for(repository):
    import tomllib

    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    environment = yaml.safe_load((repository / "environment.yml").read_text())
    assert environment["dependencies"][-1] == {"pip": ["-r requirements.lock", "-e .[all]", "-e src/phasewise_studies"]}
    wanted = {"torch", "triton", "dvc", "snakemake", "torch-tb-profiler", "nvidia-ml-py", "pandas", "jinja2"}
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *(item for extra in extras.values() for item in extra)]
    names = {re.split(r"[\[<>=; ]", item)[0] for item in declared}
    assert wanted <= names
    locked = {line.split("==")[0].lower() for line in (repository / "requirements.lock").read_text().splitlines()}
    assert wanted <= locked


def write_workload(repository, page, path):
    """The workload of that page, as a file."""
    text = (repository / "docs" / page).read_text()
    path.write_text(text.split("<!-- workload -->")[1].split("```python\n")[1].split("```")[0])
    return path


@pytest.mark.parametrize(("page", "lines"), [("tutorial.md", 40), ("model.md", 50)])
def test_the_workload_of_a_page_loads_and_plans(repository, tmp_path, page, lines):
    from phasewise.model.check import check_workload

    path = write_workload(repository, page, tmp_path / f"from_{page.removesuffix('.md')}.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    check_workload(module.workload, path.stem, program=path, checks=path)
    assert len([line for line in path.read_text().splitlines() if line.strip()]) <= lines


def export(plan, root):
    """How the export to each format ended."""
    results, _ = export_case(plan, plan.cases[0], root, root / "exports")
    return [one.status for one in results]


@pytest.mark.slow
def test_the_model_of_its_page_passes_its_gate_in_both_dtypes_and_is_exported(repository, tmp_path):
    pytest.importorskip("transformers")
    write_workload(repository, "model.md", tmp_path / "encoder.py")
    baseline = make_baseline("encoder.py", tmp_path)
    own = validate_case(baseline, "encode", tmp_path)
    assert own.outcome is Outcome.PASS, own.message
    (phase,) = (phase for phase in load_workload("encoder.py", tmp_path).phases if phase.tolerance is not None)
    switches = {"batched": True, "dtype": "bfloat16"}
    plan = make_plan("encoder.py", tmp_path, switches=switches, exporters=("torch-export", "onnx"))
    strict = validate_case(plan, "encode", tmp_path, baseline=own)
    assert strict.outcome is Outcome.FAIL and "the weights may differ" not in strict.message
    allowed = phase.tolerance
    wide = Allowance(rtol=allowed.rtol, atol=allowed.atol, times_baseline=allowed.times_baseline, why=allowed.why)
    plan = msgspec.structs.replace(plan, allowance=wide)
    found = validate_case(plan, "encode", tmp_path, baseline=own)
    assert found.outcome is Outcome.PASS, found.message
    # the runtime has no bfloat16 on a CPU
    assert export(plan, tmp_path) == [ExportStatus.OK, ExportStatus.UNSUPPORTED]
    single = make_plan("encoder.py", tmp_path, switches={"batched": True}, exporters=("torch-export", "onnx"))
    assert export(single, tmp_path) == [ExportStatus.OK, ExportStatus.OK]


def test_nothing_names_a_machine_or_a_session(repository):
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=repository, capture_output=True, text=True, check=True
    ).stdout.split()
    pattern = re.compile(r"/(root|home|work|farm)/[a-z.]", re.I)
    for name in tracked:
        # tests of the scrubbing need such paths
        if name.startswith("tests/"):
            continue
        path = repository / name
        if path.suffix in {".py", ".md", ".yaml", ".smk", ".json", ".html", ".toml", ".j2"} and path.is_file():
            assert not pattern.search(path.read_text()), name


def test_what_an_agent_is_told_to_type_and_to_expect_is_there(repository):
    from phasewise.records.exit_code import ExitCode

    text = (repository / "skills/phasewise/SKILL.md").read_text()
    options = {name for option in commands.commands["judge"].params for name in (*option.opts, *option.secondary_opts)}
    assert set(re.findall(r"`?(--[a-z]+)", text)) <= options
    told = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", text, re.M) for code in row.split(",")}
    assert told == set(ExitCode)
    assert re.match(r"---\nname: [a-z-]+\ndescription: .{80,1024}\n---\n", text)
