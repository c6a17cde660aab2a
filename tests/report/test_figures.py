from __future__ import annotations

from make import make_records

from phasewise.report.blocks import figures_of
from phasewise.report.charts import draw_svg
from phasewise.report.content import make_pages
from phasewise.report.figures.profile import Label, place_labels


def test_labels_of_a_roofline_stand_on_both_sides_and_share_a_line_where_neither_has_room() -> None:
    assert place_labels({"slow": 1.0, "fast": 40.0, "as-fast": 39.0, "too": 38.0}) == [
        Label(text="fast", height=40.0, side="right"),
        Label(text="as-fast, too", height=39.0, side="left"),
        Label(text="slow", height=1.0, side="right"),
    ]
    assert place_labels({}) == []


def test_a_drawing_stands_until_what_it_draws_changes() -> None:
    sections = [section for page in make_pages(make_records()) for section in page.sections]
    figure = next(figure for section in sections for figure in figures_of(section.blocks))
    drawn = draw_svg(figure.spec)
    # another machine's fonts: the same specification, other widths
    elsewhere = drawn.replace("<svg", "<svg data-wider='1'", 1)
    assert draw_svg(figure.spec, elsewhere) == elsewhere
    assert draw_svg(figure.spec, "no drawing") == drawn
    other = draw_svg({**figure.spec, "width": 400}, drawn)
    assert other != drawn and other.endswith(" -->")
