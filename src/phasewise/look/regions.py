"""Modules as regions of the trace, by torch's hooks on every call of one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

# parts of a module's path that a region's name keeps
DEPTH = 4
# what wrappers put in front of a path
WRAPPERS = frozenset({"_orig_mod", "module", "_fsdp_wrapped_module"})
BACKWARD = "backward"


class Regions:
    """Follows the calls of modules, and gives each its name in the trace where one is taken."""

    def __init__(self, on_call: Callable[[torch.nn.Module], None], is_tracing: Callable[[], bool]) -> None:
        self._on_call = on_call
        self._is_tracing = is_tracing
        self._threads = threading.local()
        # identity of a module -> its path, of those within modules that were called from outside while tracing
        self._names: dict[int, str] = {}

    def install(self) -> None:
        """Follow every call from now on."""
        register_module_forward_pre_hook(self._enter)
        register_module_forward_hook(self._leave, always_call=True)
        torch.autograd.backward = self._name_backward(torch.autograd.backward)

    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        # a compiled graph has no such order, and must not be broken by us
        if torch.compiler.is_compiling():
            return
        is_outermost = not self._open
        if is_outermost:
            self._on_call(module)
        region = None
        if self._is_tracing():
            if is_outermost:
                self._names |= name_modules(module)
            name = self._names.get(id(module))
            region = record_function(name) if name else None
        if region is not None:
            region.__enter__()
        self._open.append(region)

    def _leave(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        if torch.compiler.is_compiling() or not self._open:
            return
        region = self._open.pop()
        if region is not None:
            region.__exit__(None, None, None)

    @property
    def _open(self) -> list[AbstractContextManager[Any] | None]:
        """A region for each call of this thread that has not returned; None where none is recorded."""
        if not hasattr(self._threads, "open"):
            self._threads.open = []
        found: list[AbstractContextManager[Any] | None] = self._threads.open
        return found

    def _name_backward(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or not self._is_tracing():
                return function(*args, **kwargs)
            with record_function(BACKWARD):
                return function(*args, **kwargs)

        return backward


def name_modules(outermost: torch.nn.Module) -> dict[int, str]:
    """Identity -> name: the path from the outermost, with `*` for numbers, so that layers alike have one name."""
    found, root = {}, name_class(outermost)
    for path, module in outermost.named_modules():
        parts = ["*" if part.isdigit() else part for part in path.split(".") if part and part not in WRAPPERS]
        # a number alone says nothing
        named = parts if parts and parts[0] != "*" else [root, *parts]
        if len(parts) <= DEPTH:
            found[id(module)] = ".".join(named)
    return found


def name_class(module: torch.nn.Module) -> str:
    """Name of its class; of a wrapper, the class that it holds."""
    inner = next((module._modules[name] for name in WRAPPERS if module._modules.get(name) is not None), None)
    return type(module if inner is None else inner).__name__
