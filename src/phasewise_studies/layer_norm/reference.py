"""Layer norm and its gradient, an equation a line: what every variant is held against, in float64.

Of a row x, with n = (x - mean) rstd, rstd = 1 / sqrt(mean((x - mean)^2) + EPSILON) and g = dy w:
    y = n w + b      dx = rstd (g - mean(g) - n mean(g n))      dw = sum of dy n, db = sum of dy, over all rows
"""

from torch import Tensor

from phasewise import Program, Shape

EPSILON = 1e-5


def reference(inputs: dict[str, Tensor], case: str, shape: Shape, items: Tensor | None = None) -> Program:
    """By closed forms, where the baseline asks autograd: two ways to the same numbers."""

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        x, w, b, dy = (batch[name] for name in ("x", "w", "b", "dy"))
        centred = x - x.mean(-1, keepdim=True)
        rstd = (centred.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
        n, g = centred * rstd, dy * w
        y = n * w + b
        dx = rstd * (g - g.mean(-1, keepdim=True) - n * (g * n).mean(-1, keepdim=True))
        return {"y": y} if case == "forward" else {"y": y, "dx": dx, "dw": (dy * n).sum(0), "db": dy.sum(0)}

    return Program(step=step)
