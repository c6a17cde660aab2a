"""What a page is made of, without markup: both renderers walk these values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Tone = Literal["", "good", "bad", "warn", "muted"]


@dataclass(frozen=True)
class Span:
    """A run of text. `href` is always made by us, never taken from a record."""

    text: str
    code: bool = False
    strong: bool = False
    href: str = ""
    tone: Tone = ""
    # by which a column is sorted, where its text does not say it
    value: float | None = None
    # a file that a checkout may hold, relative to the page's folder; linked where it is read from a disk
    file: str = ""


# text in one line: the renderers escape every part of it
Inline = str | Span | tuple["str | Span", ...]


@dataclass(frozen=True)
class Paragraph:
    """One paragraph of running text."""

    text: Inline
    kind: str = field(default="paragraph", init=False)


@dataclass(frozen=True)
class Lead:
    """The one number that a page is about, with its sentence."""

    value: str
    text: Inline
    tone: Tone = ""
    kind: str = field(default="lead", init=False)


@dataclass(frozen=True)
class Tile:
    """One of a few numbers that stand side by side."""

    title: str
    value: str
    text: Inline
    tone: Tone = ""


@dataclass(frozen=True)
class Tiles:
    """The few numbers that a page is about."""

    items: tuple[Tile, ...]
    kind: str = field(default="tiles", init=False)


@dataclass(frozen=True)
class Alarms:
    """Sentences that the author has to read first."""

    items: tuple[Inline, ...]
    kind: str = field(default="alarms", init=False)


@dataclass(frozen=True)
class Bullets:
    """A list without order, or with one."""

    items: tuple[Inline, ...]
    ordered: bool = False
    kind: str = field(default="bullets", init=False)


@dataclass(frozen=True)
class Code:
    """Commands or a difference, as they are typed."""

    text: str
    kind: str = field(default="code", init=False)


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    number: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under a caption; `folded` tables are closed until they are opened or printed."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Inline, ...], ...]
    note: str = ""
    folded: bool = False
    # the first column names the row
    row_titles: bool = True
    # readers may sort it by a column
    sortable: bool = False
    # readers choose which two of the columns after the first they see
    paired: bool = False
    kind: str = field(default="table", init=False)


@dataclass(frozen=True)
class Figure:
    """A Vega-Lite chart with the words that stand in for it."""

    # file name without its ending, unique on a run: lower-case letters, digits and dashes
    name: str
    caption: str
    # what the chart shows, for readers who can't see it
    alternative: str
    spec: dict[str, Any] = field(compare=False)
    kind: str = field(default="figure", init=False)


@dataclass(frozen=True)
class Definitions:
    """Terms with their values."""

    pairs: tuple[tuple[Inline, Inline], ...]
    kind: str = field(default="definitions", init=False)


@dataclass(frozen=True)
class Group:
    """A titled part of a section: one case, one phase, one check."""

    id: str
    title: Inline
    blocks: tuple[Block, ...]
    # closed until it is opened or printed
    folded: bool = False
    kind: str = field(default="group", init=False)


@dataclass(frozen=True)
class Beside:
    """Blocks that stand side by side where there is room: a chart and the table of its numbers."""

    blocks: tuple[Block, ...]
    kind: str = field(default="beside", init=False)


Block = Paragraph | Lead | Tiles | Alarms | Bullets | Code | Table | Figure | Definitions | Group | Beside


@dataclass(frozen=True)
class Section:
    """One heading of a page with what stands below it."""

    id: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Link:
    """A page that a page leads to."""

    title: str
    # file name without its ending, relative to the page's folder
    page: str
    current: bool = False


@dataclass(frozen=True)
class Page:
    """One file of a report, in two formats."""

    # file name without its ending
    name: str
    title: str
    subtitle: Inline
    sections: tuple[Section, ...]
    trail: tuple[Link, ...] = ()
    pages: tuple[Link, ...] = ()
    # charts answer to the pointer; needs the shared script
    interactive: bool = False
    # from the page's folder to the folder of all reports
    up: str = ""


def figures_of(blocks: tuple[Block, ...]) -> tuple[Figure, ...]:
    """All figures, in the order of reading."""
    found: list[Figure] = []
    for block in blocks:
        if isinstance(block, Figure):
            found.append(block)
        elif isinstance(block, Group | Beside):
            found.extend(figures_of(block.blocks))
    return tuple(found)


def beside(*blocks: Block | None) -> tuple[Block, ...]:
    """Those that are there, side by side."""
    found = tuple(block for block in blocks if block is not None)
    return (Beside(found),) if len(found) > 1 else found


def numeral(text: str, value: float | None) -> Span:
    """A number as it is told, in a column that can be sorted."""
    return Span(text, value=value)


def code(text: str) -> Span:
    """A name as it is typed."""
    return Span(text, code=True)


def strong(text: str) -> Span:
    """What a reader must not overlook."""
    return Span(text, strong=True)


def columns(*titles: str) -> tuple[Column, ...]:
    """Columns from their titles; a leading `#` makes a column of numbers."""
    return tuple(Column(title.removeprefix("#"), number=title.startswith("#")) for title in titles)
