"""Text that came from elsewhere, made fit for a record, a page and a terminal."""

from __future__ import annotations

import unicodedata


def clean(text: str) -> str:
    """`text` without control characters, surrogates and direction overrides; line breaks become spaces."""
    kept = (" " if mark in "\n\r\t\v\f\u2028\u2029" else mark for mark in text)
    return "".join("\ufffd" if _is_unprintable(mark) else mark for mark in kept)


def clean_lines(text: str) -> str:
    """The same, line by line."""
    return "\n".join(map(clean, text.split("\n")))


def _is_unprintable(mark: str) -> bool:
    # Bidi overrides and isolates (U+202A-202E, U+2066-2069) are of category Cf and can reorder what is read
    return unicodedata.category(mark) in ("Cc", "Cs") or "\u202a" <= mark <= "\u202e" or "\u2066" <= mark <= "\u2069"
