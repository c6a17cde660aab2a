"""A bad configuration is one sentence with the key, its value, what is allowed and the cure."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from phasewise.model.configuration import choose_budget, parse_configuration, read_configuration
from phasewise.model.parse import show
from phasewise.records.errors import PlanError

GOOD = {"workloads": {"bk_core": None}}
BAD: list[tuple[Any, str]] = [
    (None, "mapping is needed"),
    ([], "mapping is needed"),
    ("text", "mapping is needed"),
    ({}, "workloads"),
    ({"workloads": {}}, "no workload"),
    ({"workloads": []}, "wrong type"),
    ({"workloads": {"default": {}}}, "not allowed as a name"),
    ({"workloads": {"machine": {}}}, "not allowed as a name"),
    ({"workloads": {"index": {}}}, "not allowed as a name"),
    ({"workloads": {"Upper": {}}}, "not allowed as a name"),
    ({"workloads": {"../up": {}}}, "not allowed as a name"),
    ({"workloads": {"a b": {}}}, "not allowed as a name"),
    ({"workloads": {"a": {"surce": "x.py"}}}, "'surce' is not known"),
    ({"workloads": {"a": {"source": ""}}}, "length"),
    ({"workloads": {"a": {"source": 3}}}, "wrong type"),
    ({"workloads": {"a": {"cases": []}}}, "empty list"),
    ({"workloads": {"a": {"cases": "x"}}}, "wrong type"),
    ({"workloads": {"a": {"cases": ["x", "x"]}}}, "twice"),
    ({"workloads": {"a": {"size": "huge"}}}, "tiny, small, full"),
    ({"workloads": {"a": {"tier": "lax"}}}, "strict, moderate, relaxed"),
    ({"workloads": {"a": {"where": "moon"}}}, "any, cuda"),
    ({**GOOD, "size": "huge"}, "auto, tiny, small, full"),
    ({**GOOD, "device": "tpu"}, "auto, cpu, cuda"),
    ({**GOOD, "tier": 3}, "strict, moderate, relaxed"),
    ({**GOOD, "budget": "forever"}, "quick, standard, thorough"),
    ({**GOOD, "ablations": True}, "none, without, only, both"),
    ({**GOOD, "profilers": ["perf"]}, "torch, memory"),
    ({**GOOD, "profilers": "torch"}, "wrong type"),
    ({**GOOD, "exporters": ["torchscript"]}, "torch-export"),
    ({**GOOD, "capture": "some"}, "ends, all"),
    ({**GOOD, "seed": -1}, "at least 0"),
    ({**GOOD, "seed": 1.5}, "wrong type"),
    ({**GOOD, "measure": {"rounds": 3}}, "'rounds' is not known"),
    ({**GOOD, "measure": {"min_rounds": 0}}, "at least 3"),
    ({**GOOD, "measure": {"standard": {"rounds": 3}}}, "measure.standard: 'rounds' is not known"),
    ({**GOOD, "measure": {"block_s": 0}}, "more than 0"),
    ({**GOOD, "measure": {"min_rounds": 50}}, "lower the other"),
    ({**GOOD, "budget": "standard", "measure": {"min_sets": 1}}, "give at least 2"),
    ({**GOOD, "measure": {"min_rounds": 10**9}}, "at most 1000"),
    ({**GOOD, "measure": {"seconds": math.inf}}, "at most"),
    ({**GOOD, "measure": {"seconds": "60"}}, "wrong type"),
    ({**GOOD, "seed": 2**70}, "at most"),
    ({**GOOD, "colour": "red"}, "'colour' is not known"),
]


@pytest.fixture
def schema(repository):
    return yaml.safe_load((repository / "workflow/schemas/config.schema.yaml").read_text())


@pytest.mark.parametrize(("plain", "words"), BAD, ids=[show(plain)[:60] for plain, _ in BAD])
def test_a_bad_configuration_is_refused_in_one_sentence(plain, words, schema):
    with pytest.raises(PlanError) as caught:
        parse_configuration(plain, schema, "config.yaml")
    text = str(caught.value)
    assert text.startswith("config.yaml: ")
    assert words in text
    assert "\n" not in text


def test_the_shipped_configuration_is_good_and_needs_no_default(repository, schema):
    configuration = read_configuration(
        repository / "workflow/config.yaml", repository / "workflow/schemas/config.schema.yaml"
    )
    assert parse_configuration(GOOD, schema, "x").profilers == configuration.profilers
    assert configuration.workloads[0].source == "phasewise_studies.bk_core.phases"


def test_painn_is_measured_without_forces_too(repository, schema):
    configuration = read_configuration(
        repository / "workflow/config.yaml", repository / "workflow/schemas/config.schema.yaml"
    )
    (painn,) = (one for one in configuration.workloads if ".painn." in one.source)
    assert not painn.cases or "energy" in painn.cases


def test_a_file_that_is_absent_or_no_yaml_is_named(tmp_path, repository):
    schema = repository / "workflow/schemas/config.schema.yaml"
    with pytest.raises(PlanError, match="no configuration can be read"):
        read_configuration(tmp_path / "none.yaml", schema)


BOMB = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
)
YAML = {
    "unclosed": ("workloads: {a: [}", "line 1"),
    "key twice": ("seed: 1\nworkloads: {a: {}}\nseed: 2\n", "line 3: not the YAML that is read here (the key 'seed'"),
    "deep key twice": ("workloads: {a: {size: tiny, size: full}}", "the key 'size' stands there twice"),
    "aliases": (BOMB, "line 2: not the YAML that is read here (the alias *a is not allowed)"),
    "deep": ("workloads: " + "[" * 3000 + "]" * 3000, "more than 8 levels"),
    "number as name": ("workloads: {5: {}}", "a key has to be text, '5' is none"),
    "nothing as name": ("workloads: {~: {}}", "a key has to be text"),
    "list as name": ("workloads: {[a]: {}}", "a key has to be text"),
    "no text": (b"workloads: \xff\xfe", "not YAML"),
    "control": ("workloads: {a\x1b[2J: {}}", "not YAML"),
    "tag": ("workloads: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
    "two": ("workloads: {a: {}}\n---\nseed: 1\n", "line 2"),
    "long": ("# " + "x" * (1 << 20), "longer than"),
    "merge": ("a: {b: 1}\nworkloads: {<<: {a: {}}}", "a key has to be text"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), YAML.values(), ids=YAML)
def test_yaml_says_each_thing_once(text, words, tmp_path, repository):
    (tmp_path / "bad.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PlanError) as caught:
        read_configuration(tmp_path / "bad.yaml", repository / "workflow/schemas/config.schema.yaml")
    assert words in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_a_cpu_gets_one_set_of_processes_and_a_gpu_several(schema):
    configuration = parse_configuration({**GOOD, "measure": {"timeout_s": 5}}, schema, "x")
    assert choose_budget(configuration, "cpu").max_sets == 1
    assert choose_budget(configuration, "cuda").min_sets >= 3
    assert choose_budget(configuration, "cuda").timeout_s == 5


def test_numbers_under_the_name_of_a_budget_are_for_that_budget_only(schema):
    plain = {**GOOD, "measure": {"seconds": 50, "standard": {"max_sets": 3, "seconds": 20}}}
    configuration = parse_configuration(plain, schema, "x")
    quick, standard = (choose_budget(configuration, kind) for kind in ("cpu", "cuda"))
    assert (quick.max_sets, quick.seconds) == (1, 50)
    assert (standard.max_sets, standard.seconds) == (3, 20)
