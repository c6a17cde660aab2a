"""What is a step of a script that does not say: an optimizer's steps, else calls of its outermost module."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from phasewise.look.known import AUTO, CALL, OPTIMIZER
from phasewise.look.regions import Regions, name_class
from phasewise.look.window import Window
from phasewise.records.profile import CLOSURE

# a module that is called so often is called again and again
REPEATED = 3
FUNCTION = "function"


class Steps:
    """Tells the window when a step ends.

    Steps of the first optimizer count. Calls count where no optimizer exists; if one steps before they are warm, its steps count instead.
    A step by calls goes from the beginning of one to that of the next.
    """

    def __init__(self, asked: str, window: Window) -> None:
        self._asked = asked if asked in (AUTO, OPTIMIZER, CALL) else FUNCTION
        self._window = window
        # the optimizer or module whose steps or calls count
        self._chosen: weakref.ref[Any] | None = None
        self._counts: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        self.kind = FUNCTION if self._asked == FUNCTION else ""
        self.name = asked if self._asked == FUNCTION else ""
        self.calls = 0
        self.module: torch.nn.Module | None = None

    def install(self) -> None:
        """Listen to torch from now on."""
        Regions(self.on_call, lambda: self._window.is_tracing).install()
        register_optimizer_step_pre_hook(self.name_closure)
        register_optimizer_step_post_hook(self.on_optimizer_step)

    def on_function_call(self) -> None:
        """The function that the user named is called."""
        self._window.end_step()

    def name_closure(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
        """Give the closure that the step is called with a region of its own in the trace."""
        if not self._window.is_tracing:
            return None
        owner, *others = args
        named = (_record(one) if callable(one) else one for one in others)
        return (owner, *named), {name: _record(one) if callable(one) else one for name, one in kwargs.items()}

    def on_optimizer_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """An optimizer has stepped."""
        if self._asked not in (AUTO, OPTIMIZER):
            return
        if self.kind == CALL and not self._window.is_warm:
            self.kind = ""
        if not self.kind:
            self._choose(OPTIMIZER, type(optimizer).__name__, optimizer)
        if self.kind == OPTIMIZER and self._is_chosen(optimizer):
            self._window.end_step()

    def on_call(self, module: torch.nn.Module) -> None:
        """A module is called from outside of modules."""
        self.calls += 1
        if self.module is None:
            self.module = module
        if self._asked not in (AUTO, CALL):
            return
        if not self.kind:
            count = self._counts[module] = self._counts.get(module, 0) + 1
            if count < REPEATED or (self._asked == AUTO and has_optimizer()):
                return
            self._choose(CALL, name_class(module), module)
        if self.kind == CALL and self._is_chosen(module):
            self._window.end_step()

    def _choose(self, kind: str, name: str, chosen: Any) -> None:
        self.kind, self.name, self._chosen = kind, name, weakref.ref(chosen)
        self._window.restart()

    def _is_chosen(self, one: Any) -> bool:
        return self._chosen is not None and self._chosen() is one


def _record(closure: Callable[[], Any]) -> Callable[[], Any]:
    def recorded() -> Any:
        with record_function(CLOSURE):
            return closure()

    return recorded


def has_optimizer() -> bool:
    """Whether an optimizer exists in this process, so that steps of it may be yet to come."""
    return any(issubclass(type(one), torch.optim.Optimizer) for one in gc.get_objects())
