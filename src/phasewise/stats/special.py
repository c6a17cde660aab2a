"""Distribution functions, from scipy when the first is called: its import takes most of a second, and many short jobs need none of them."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any


def ndtr(x: Any) -> Any:
    """P(Z <= x) of a normal Z."""
    return _special().ndtr(x)


def ndtri(p: Any) -> Any:
    """The inverse of `ndtr`."""
    return _special().ndtri(p)


def stdtr(df: Any, t: Any) -> Any:
    """P(T <= t) of a Student's T with `df` degrees of freedom."""
    return _special().stdtr(df, t)


def stdtrit(df: Any, p: Any) -> Any:
    """The inverse of `stdtr` in its second argument."""
    return _special().stdtrit(df, p)


def digamma(x: Any) -> Any:
    """The derivative of log gamma."""
    return _special().digamma(x)


def fdtrc(dfn: Any, dfd: Any, x: Any) -> Any:
    """P(F > x) of an F with `dfn` and `dfd` degrees of freedom."""
    return _special().fdtrc(dfn, dfd, x)


@cache
def _special() -> ModuleType:
    from scipy import special

    return special
