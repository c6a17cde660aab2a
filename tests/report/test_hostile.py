"""Kernel names and user text are hostile: markup in every field of every record must come out as text."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec
import pytest

from phasewise.model.kernel_names import shorten_kernel
from phasewise.records.base import Record
from phasewise.report.blocks import Page, figures_of
from phasewise.report.charts import draw_svg
from phasewise.report.content import make_pages
from phasewise.report.format import clean
from phasewise.report.markdown import render_markdown
from phasewise.run import Run
from report.make import make_records
from report.make_less import make_small_records
from report.reading import as_html, read_html, read_markdown, seen

POISON = "<script>alert(1)</script>\"'|``x``</td>&lt;\n# [a](javascript:b) ![c](http://d.e/f.png) <img src=x onerror=g> \\| --- $h$\x00\u202e"
# words that the records themselves define: poisoned only where every word is
VOCABULARY = {
    ("Finding", "outcome"), ("RiskResult", "outcome"), ("Prediction", "basis"), ("TargetResult", "unit"), ("Quantity", "unit"),
    ("CaseWork", "dtype"), ("PlannedPhase", "must"), ("PlannedTarget", "better"),
}  # fmt: skip
# shown without namespaces and arguments
KERNELS = {("Kernel", "name"), ("Counters", "kernel"), ("Stretch", "kernel")}
# never shown: digests, what a page's address says already, and what another field says better
HIDDEN = {
    ("Export", "plan"), ("Profile", "plan"), ("Validation", "plan"), ("VariantPlan", "sources"), ("Prediction", "made_from"),
    ("RunPlan", "size"), ("VariantPlan", "size"), ("Machine", "kind"), ("Prepared", "folder"),
    # the gate's own record tells it
    ("Row", "validation_message"),
}  # fmt: skip


def poison(value: Any, everything: bool, owner: str = "", field: str = "") -> Any:
    """`value` with the poison at the end of every text that is not a word of an enumeration."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return value if not value or ((owner, field) in VOCABULARY and not everything) else value + POISON
    if isinstance(value, Record):
        kind = type(value).__name__
        changed = {name: poison(getattr(value, name), everything, kind, name) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **changed)
    if isinstance(value, Run):
        names = (poison(name, everything) for name in (value.workload, value.name))
        return Run(*names, [poison(record, everything) for record in value.known])
    if isinstance(value, tuple):
        return tuple(poison(one, everything, owner, field) for one in value)
    if isinstance(value, dict):
        return {
            poison(key, everything, owner, field): poison(one, everything, owner, field) for key, one in value.items()
        }
    return value


def texts(value: Any, owner: str = "", field: str = "") -> Iterator[tuple[str, str, str]]:
    """Every text of the records with the record and the field that it stands in."""
    if isinstance(value, str) and not isinstance(value, Enum) and value:
        yield owner, field, value
    elif isinstance(value, Record):
        for name in value.__struct_fields__:
            yield from texts(getattr(value, name), type(value).__name__, name)
    elif isinstance(value, Run):
        for one in (value.workload, value.name, *value.known):
            yield from texts(one, "Run")
    elif isinstance(value, tuple):
        for one in value:
            yield from texts(one, owner, field)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from texts(key, owner, field)
            yield from texts(one, owner, field)


@pytest.fixture(scope="module", params=[False, True], ids=["free text", "every word"])
def pages(request: pytest.FixtureRequest) -> tuple[Page, ...]:
    return make_pages(poison(make_records(), everything=request.param))


def test_html_keeps_its_own_elements_and_no_others(pages: tuple[Page, ...]) -> None:
    for page in pages:
        document = as_html(page)
        reader = read_html(document)
        assert "<script>alert" not in document and "\x00" not in document and "\u202e" not in document
        kinds = [(one.get("type"), one.get("src")) for one in reader.all("script")]
        assert set(kinds) <= {("application/json", None), (None, "../../vega.js")}
        assert all((one.get("src") or "").startswith("data:image/svg+xml,") for one in reader.all("img"))
        assert not [one for _, one in reader.elements for name in one if name.startswith("on")]
        assert not [one for one in reader.all("a") if ":" in (one.get("href") or "")]
        for script in reader.scripts:
            if script:
                json.loads(script)


def test_markdown_shows_markup_as_text(pages: tuple[Page, ...]) -> None:
    for page in pages:
        reader = read_markdown(render_markdown(page))
        assert not reader.all("script")
        assert all((one.get("src") or "").startswith("figures/") for one in reader.all("img"))
        assert not [one for _, one in reader.elements for name in one if name.startswith("on")]
        assert not [one for one in reader.all("a") if ":" in (one.get("href") or "")]


def test_markdown_tables_keep_their_columns(pages: tuple[Page, ...]) -> None:
    for page in pages:
        ours, theirs = read_markdown(render_markdown(page)), read_html(as_html(page))
        assert len(ours.all("table")) == len(theirs.all("table"))
        assert len(ours.all("td")) + len(ours.all("th")) == len(theirs.all("td")) + len(theirs.all("th"))


def test_drawings_are_well_formed_and_hold_no_script() -> None:
    pages = make_pages(poison(make_small_records(), everything=True))
    drawn = [
        draw_svg(figure.spec)
        for page in pages
        if page.interactive
        for section in page.sections
        for figure in figures_of(section.blocks)
    ]
    assert drawn
    for svg in drawn:
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()}
        assert not tags & {"script", "foreignObject", "image", "a"}


def test_every_text_field_of_the_records_is_shown_or_known_to_be_hidden() -> None:
    records = poison(make_records(), everything=False)
    html = seen("".join(as_html(page) for page in make_pages(records)))
    shown: dict[tuple[str, str], bool] = {}
    for owner, field, text in texts(records):
        told = shorten_kernel(text) if (owner, field) in KERNELS else text
        shown[owner, field] = shown.get((owner, field), False) or clean(told) in html
    hidden = {key for key, there in shown.items() if not there}
    # a word of a vocabulary is replaced by a sentence or a unit
    assert hidden - VOCABULARY == HIDDEN


def test_a_kernel_name_in_a_page_is_escaped_and_not_dropped() -> None:
    pages = {page.name: page for page in make_pages(poison(make_records(), everything=False))}
    document = as_html(pages["profile"])
    assert "&lt;script&gt;alert(1)&lt;/<wbr>script&gt;" in document
    assert clean("elementwise_kernel<128, 2, gpu_kernel_impl") in seen(document)
