"""How the tests read a page back: a strict parser for HTML, and the one that GitHub's Markdown comes closest to."""

from __future__ import annotations

import html
from html.parser import HTMLParser

from markdown_it import MarkdownIt

from phasewise.report.blocks import Page, figures_of
from phasewise.report.charts import draw_svg
from phasewise.report.html import render_html

VOID = {"meta", "img", "wbr", "br", "hr", "link", "input"}


class Reader(HTMLParser):
    """Elements, attributes and text of a page; raises where tags do not nest."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"repeated attribute in <{tag}>"
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def read_html(text: str) -> Reader:
    """The page, parsed to its end."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open, f"never closed: {reader.open}"
    return reader


def read_markdown(text: str) -> Reader:
    """The Markdown as the HTML that a reader of it sees."""
    rendered = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)
    reader = Reader()
    reader.feed(rendered)
    return reader


def as_html(page: Page) -> str:
    """The page with its charts drawn."""
    svgs = {
        figure.name: _draw(repr(figure.spec), figure)
        for section in page.sections
        for figure in figures_of(section.blocks)
    }
    return render_html(page, svgs)


def seen(text: str) -> str:
    """The words of an HTML source as they are written, without the places where names may break."""
    return html.unescape(text.replace("<wbr>", ""))


_DRAWN: dict[str, str] = {}


def _draw(key: str, figure: object) -> str:
    if key not in _DRAWN:
        _DRAWN[key] = draw_svg(figure.spec)
    return _DRAWN[key]
