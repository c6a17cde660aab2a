"""Names of kernels as people read them: a C++ name holds every namespace, argument and lambda on the way."""

from __future__ import annotations

import functools
import re

LONGEST = 96
# an argument list, or a lambda of one; a blank before the bracket makes it part of a name, such as `Memcpy DtoH (Device -> Pinned)`
_ARGUMENTS = re.compile(r"(?<! )\([^()]*\)|(?:::)?\{[^{}]*\}")
_OPERATOR = re.compile(r"(?:::)?\boperator\b(?: const)?")
_NAMESPACES = re.compile(r"\b(?:\w+::)+(?=\w)")


@functools.lru_cache(maxsize=4096)
def shorten_kernel(name: str) -> str:
    """The name without return type, namespaces and arguments, in 96 characters at most; of longer ones the middle is left out.

    `void at::native::(anonymous namespace)::fill<4, at::Half>(int, at::Half*)` -> `fill<4, Half>`.
    """
    text = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    while (without := _ARGUMENTS.sub("", text)) != text:
        text = without
    text = _NAMESPACES.sub("", _OPERATOR.sub("", text)).replace(" >", ">").strip() or name
    half = (LONGEST - 1) // 2
    return text if len(text) <= LONGEST else f"{text[:half]}…{text[-half:]}"
