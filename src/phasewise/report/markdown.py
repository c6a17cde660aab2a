"""Pages as GitHub-flavoured Markdown: the same content, with every mark of user text made literal."""

from __future__ import annotations

import re
from collections.abc import Iterable

from phasewise.report.blocks import (
    Alarms,
    Beside,
    Block,
    Bullets,
    Code,
    Definitions,
    Figure,
    Group,
    Inline,
    Lead,
    Page,
    Paragraph,
    Span,
    Table,
    Tiles,
)
from phasewise.report.format import clean

# what Markdown, GitHub's mathematics and HTML give a meaning to
SPECIAL = re.compile(r"([\\`*\[\]<>|~$&#])")
# emphasis only begins or ends beside something that is no word character
UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
# a list, a rule or an underline would begin here; an escape before the mark prevents it
BLOCK_START = re.compile(r"^(\d*)([-+=.)])")
# a bar as an entity, since tables are split before escapes are read
ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "|": "&#124;"}


def render_markdown(page: Page) -> str:
    """The page as one Markdown document; figures are files in `figures/`."""
    lines: list[str] = []
    if page.trail:
        lines += [" › ".join(f"[{escape(one.title)}]({one.page}.md)" for one in page.trail), ""]
    lines += [f"# {escape(page.title)}", "", paragraph(inline(page.subtitle)), ""]
    if len(page.pages) > 1:
        shown = (
            f"**{escape(one.title)}**" if one.current else f"[{escape(one.title)}]({one.page}.md)" for one in page.pages
        )
        lines += [" · ".join(shown), ""]
    for section in page.sections:
        lines += [f'<a id="{section.id}"></a>', "", f"## {escape(section.title)}", ""]
        lines += _blocks(section.blocks, 3)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def escape(text: str) -> str:
    """Text that shows as it is, in a paragraph and in a table."""
    return UNDERSCORE.sub(r"\\_", SPECIAL.sub(lambda found: ENTITIES.get(found[1], f"\\{found[1]}"), clean(text)))


def code(text: str, *, in_table: bool = False) -> str:
    """Text between more backticks than it holds; with a bar in a table, which would end the cell, as an element."""
    shown = clean(text)
    if in_table and "|" in shown:
        return f"<code>{escape(shown)}</code>"
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") or (shown.startswith(" ") and shown.endswith(" ")) else ""
    return f"{fence}{pad}{shown}{pad}{fence}" if shown.strip() else ""


def inline(text: Inline, *, in_table: bool = False) -> str:
    """Running text."""
    if isinstance(text, tuple):
        return "".join(inline(part, in_table=in_table) for part in text)
    if isinstance(text, str):
        return escape(text)
    shown = code(text.text, in_table=in_table) if text.code else escape(text.text)
    if text.href:
        shown = f"[{shown}]({link(text.href)})"
    return _strong(shown, text) if text.strong else shown


def _strong(shown: str, span: Span) -> str:
    return f"**{shown.strip()}**" if span.text.strip() else shown


def link(target: str) -> str:
    """`page#anchor` to a Markdown file beside this one."""
    page, _, anchor = target.partition("#")
    return (f"{page}.md" if page else "") + (f"#{anchor}" if anchor else "")


def paragraph(text: str) -> str:
    """Text that begins no list, heading or rule."""
    return BLOCK_START.sub(r"\1\\\2", text.strip())


def _blocks(blocks: Iterable[Block], level: int) -> list[str]:
    lines: list[str] = []
    for block in blocks:
        lines += [*_block(block, level), ""]
    return lines


def _block(block: Block, level: int) -> list[str]:
    match block:
        case Paragraph():
            return [paragraph(inline(block.text))]
        case Lead():
            return [f"**{escape(block.value)}** {inline(block.text)}"]
        case Tiles():
            return [f"- {escape(one.title)}: **{escape(one.value)}** {inline(one.text)}" for one in block.items]
        case Alarms():
            return ["> [!WARNING]", *(f"> - {paragraph(inline(item))}" for item in block.items)]
        case Bullets():
            return [f"{'1.' if block.ordered else '-'} {paragraph(inline(item))}" for item in block.items]
        case Code():
            return _fenced(block.text)
        case Definitions():
            return [f"- {paragraph(inline(term))}: {inline(value)}" for term, value in block.pairs]
        case Table():
            return _table(block)
        case Figure():
            return _figure(block)
        case Beside():
            return _blocks(block.blocks, level)
        case Group():
            heading = f"{'#' * min(level, 6)} {inline(block.title)}"
            return [f'<a id="{block.id}"></a>', "", heading, "", *_blocks(block.blocks, level + 1)]


def _fenced(text: str) -> list[str]:
    lines = [clean(line) for line in text.split("\n")]
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *lines, fence]


def _figure(block: Figure) -> list[str]:
    return [f"![{escape(block.alternative)}](figures/{block.name}.svg)", "", f"*{escape(block.caption)}*"]


def _table(block: Table) -> list[str]:
    titles = " | ".join(escape(column.title) for column in block.columns)
    rules = " | ".join("---:" if column.number else "---" for column in block.columns)
    rows = [f"| {' | '.join(inline(cell, in_table=True) for cell in row)} |" for row in block.rows]
    table = [f"| {titles} |", f"| {rules} |", *rows]
    note = ["", paragraph(escape(block.note))] if block.note else []
    if not block.folded:
        return [f"*{escape(block.caption)}*", "", *table, *note]
    # GitHub reads Markdown again after an empty line within the element
    return [f"<details><summary>{_plain(block.caption)}</summary>", "", *table, *note, "", "</details>"]


def _plain(text: str) -> str:
    """Text within an HTML tag."""
    return clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
