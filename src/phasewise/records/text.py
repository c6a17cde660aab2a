"""Text that came from elsewhere, made fit for a record, a page and a terminal."""

from __future__ import annotations

import re

# line breaks, and what has no business in a text: control characters, surrogates, and bidi overrides and isolates, which can reorder
# what is read
BREAK = re.compile("[\n\r\t\v\f\u2028\u2029]")
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """`text` without control characters, surrogates and direction overrides; line breaks become spaces."""
    return UNPRINTABLE.sub("\ufffd", BREAK.sub(" ", text))


def clean_lines(text: str) -> str:
    """The same, line by line."""
    return "\n".join(map(clean, text.split("\n")))
