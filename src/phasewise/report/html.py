"""Pages as HTML that stands alone: style, charts and text in one file, no request to anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from phasewise.report.blocks import Inline, Page, Span, Table
from phasewise.report.format import clean

# of a data URI within double quotes, the characters that must be written by their numbers
IN_URI = {ord(mark): f"%{ord(mark):02X}" for mark in "%\"#&'<>[]^`{|}\\\n\r\t"}


def render_html(page: Page, svgs: Mapping[str, str]) -> str:
    """The page as one HTML document; `svgs` holds each figure's drawing by name."""
    return _environment().get_template("page.html.j2").render(page=page, svgs=svgs, style=_style())


def inline(text: Inline) -> Markup:
    """Running text, every part of it escaped."""
    if isinstance(text, tuple):
        return Markup("").join(inline(part) for part in text)
    if isinstance(text, str):
        return escape(clean(text))
    shown: Markup = _breakable(text.text) if text.code else escape(clean(text.text))
    if text.code:
        shown = Markup("<code>{}</code>").format(shown)
    if text.href:
        shown = Markup('<a href="{}">{}</a>').format(link(text.href), shown)
    if text.file:
        shown = Markup('<a href="{}">{}</a>').format(quote(clean(text.file)), shown)
    if text.strong:
        shown = Markup("<strong>{}</strong>").format(shown)
    return Markup('<span class="tone-{}">{}</span>').format(text.tone, shown) if text.tone else shown


def link(target: str) -> str:
    """`page#anchor`, as blocks write it, to a file beside this one."""
    page, _, anchor = target.partition("#")
    return (f"{page}.html" if page else "") + (f"#{anchor}" if anchor else "")


def plain(text: Inline) -> str:
    """Running text without its emphasis."""
    if isinstance(text, tuple):
        return "".join(plain(part) for part in text)
    return clean(text.text if isinstance(text, Span) else text)


def data_uri(svg: str) -> Markup:
    """The drawing as the source of an image: as an image it runs no script and loads nothing."""
    shown = svg.encode("ascii", "xmlcharrefreplace").decode().translate(IN_URI)
    return Markup("data:image/svg+xml,{}").format(Markup(shown))


def spec_json(spec: Mapping[str, Any]) -> Markup:
    """A specification within a script element: nothing in it can end the element."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def cell_class(table: Table, index: int) -> str:
    """How a column is set."""
    return "number" if table.columns[index].number else "text"


def sort_key(cell: Inline) -> float | None:
    """What a column is sorted by, where the text of the cell does not say it."""
    return cell.value if isinstance(cell, Span) else None


def _breakable(name: str) -> Markup:
    """A name that may be broken after the marks that join its words: kernel names are hundreds of characters long."""
    marked = escape(clean(name))
    for mark in ("_", "/", "::", "-", ","):
        marked = marked.replace(mark, Markup(f"{mark}<wbr>"))
    return marked


@cache
def _style() -> Markup:
    return Markup(resources.files("phasewise.report").joinpath("templates/style.css").read_text(encoding="utf-8"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("phasewise.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "inline": inline, "link": link, "plain": plain, "data_uri": data_uri, "spec_json": spec_json, "clean": clean,
    }  # fmt: skip
    environment.filters.update(filters)
    environment.globals.update(cell_class=cell_class, sort_key=sort_key)
    return environment
