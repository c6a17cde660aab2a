"""Row sums with weights: the base, and candidates that are right, wrong or cheat."""

from __future__ import annotations

import sys
import threading
import time

import torch

_kept: dict[object, torch.Tensor] = {}
_calls: list[int] = []


def make_inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(128, 256, generator=generator), torch.rand(256, generator=generator)


def base(x, w):
    return torch.stack([(row * w).sum() for row in x])


def faster(x, w):
    return (x * w).sum(1)


def steep(x, w):
    """Its own error is above the tier: what float32 loses of the sum grows twentyfold."""
    return torch.sin(20 * (x * w).sum(1))


def steep_too(x, w):
    return torch.sin(20 * (x @ w))


def slower(x, w):
    return base(x, w) + 0 * base(x, w)


def partial(x, w):
    return x[:, :-1] @ w[:-1]


def zeros(x, w):
    return torch.zeros(x.shape[0])


def constant(x, w):
    return torch.full((x.shape[0],), 64.0)


def swallows_nan(x, w):
    found = (x * w).sum(1)
    found[3] = float("nan")
    return found


def by_pointer(x, w):
    if x.data_ptr() not in _kept:
        _kept[x.data_ptr()] = base(x, w)
    return _kept[x.data_ptr()]


def by_pointer_when_timed(x, w):
    """No gate makes so many calls, and no drawn block has to come after the first new contents."""
    _calls.append(1)
    return by_pointer(x, w) if len(_calls) > 200 else (x * w).sum(1)


def by_contents(x, w):
    key = (x.data_ptr(), float(x[0, 0]), float(x[-1, -1]))
    if key not in _kept:
        _kept[key] = base(x, w)
    return _kept[key]


@torch.library.custom_op("sums::by_operator", mutates_args=())
def by_operator(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Of which a count sees the call alone."""
    return by_contents(x, w).clone()


def every_fourth(x, w):
    count = len(_kept)
    _kept[count] = _kept[count - 1] if count % 4 else base(x, w)
    return _kept[count]


class Lazy(torch.Tensor):
    pass


def lazy(x, w):
    return (x * w).sum(1).as_subclass(Lazy)


class Later(tuple):
    def __iter__(self):
        x, w = self.given
        return iter(((x * w).sum(1),))


def lazily_iterated(x, w):
    found = Later()
    found.given = (x, w)
    return found


def late(x, w):
    out = torch.empty(x.shape[0])

    def fill():
        time.sleep(0.003)
        out.copy_((x * w).sum(1))

    threading.Thread(target=fill).start()
    return out


def narrow(x, w):
    return (x.bfloat16() @ w.bfloat16()).float()


def wide(x, w):
    return (x * w).sum(1).double()


def spoils_its_input(x, w):
    found = (x * w).sum(1)
    x.zero_()
    return found


def named_otherwise(x, w):
    return {"sum": (x * w).sum(1)}


def knows_the_checker(x, w):
    """Right only where a module of the gate is loaded."""
    gate = any(name.startswith("phasewise.validate") for name in sys.modules)
    return base(x, w) if gate else torch.zeros(x.shape[0])


def slow_clock(x, w):
    main = sys.modules["__main__"]
    if not hasattr(main, "_real"):
        main._real = main._now
        main._now = lambda: main._real() / 10
    return base(x, w)


def crashes(x, w):
    raise ValueError("no such sum")


def ends(x, w):
    sys.exit(0)
