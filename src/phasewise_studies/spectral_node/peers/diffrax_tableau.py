"""Classical RK4 for diffrax, which brings embedded pairs only: the same four evaluations a step as every other arm."""

from __future__ import annotations

from typing import Any, ClassVar

import diffrax
import numpy as np


class ClassicalRK4(diffrax.AbstractERK):
    """Kutta's method of 1901; its error estimate is 0, since steps are constant."""

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        c=np.array([0.5, 0.5, 1.0]),
        b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
        b_error=np.array([0.0, 0.0, 0.0, 0.0]),
        a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
    )
    interpolation_cls: ClassVar[Any] = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms: Any) -> int:
        return 4


def make_rk4() -> ClassicalRK4:
    """The solver."""
    return ClassicalRK4()
