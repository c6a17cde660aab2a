from __future__ import annotations

from phasewise.report.figures.profile import Label, place_labels


def test_labels_of_a_roofline_stand_on_both_sides_and_share_a_line_where_neither_has_room() -> None:
    assert place_labels({"slow": 1.0, "fast": 40.0, "as-fast": 39.0, "too": 38.0}) == [
        Label(text="fast", height=40.0, side="right"),
        Label(text="as-fast, too", height=39.0, side="left"),
        Label(text="slow", height=1.0, side="right"),
    ]
    assert place_labels({}) == []
