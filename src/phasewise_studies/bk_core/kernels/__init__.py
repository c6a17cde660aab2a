"""The diagonal and its gradient by kernels: `dispatch` chooses between them and the reference, the other modules are the kernels.

Triton is imported at the first launch, so that this package loads where there is none.
"""

from phasewise_studies.bk_core.kernels.dispatch import diagonal, gradient, has_kernel, launch_diagonal

__all__ = ["diagonal", "gradient", "has_kernel", "launch_diagonal"]
