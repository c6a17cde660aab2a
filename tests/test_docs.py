"""The documentation names everything that a user can type, and its code runs."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from phasewise.cli import commands
from phasewise.records.finding import FindingId

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


def test_the_tutorials_workload_loads_and_plans(repository, tmp_path):
    from phasewise.model.check import check_workload

    text = (repository / "docs/tutorial.md").read_text()
    code = text.split("<!-- workload -->")[1].split("```python\n")[1].split("```")[0]
    path = tmp_path / "from_tutorial.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location("from_tutorial", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["from_tutorial"] = module
    spec.loader.exec_module(module)
    check_workload(module.workload, "from_tutorial", program=path, checks=path)
    assert len([line for line in code.splitlines() if line.strip()]) <= 40


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
