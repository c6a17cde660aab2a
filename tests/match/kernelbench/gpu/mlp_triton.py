import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product(a, b, bias, c, rows, columns, inner, GELU: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """c[m, n] = f(sum_k a[m, k] b[n, k] + bias[n]), f the tanh form of GELU or nothing; sums in float32."""
    m = tl.program_id(0) * M + tl.arange(0, M)
    n = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, inner, K):
        k = start + tl.arange(0, K)
        left = tl.load(a + m[:, None] * inner + k[None, :], (m[:, None] < rows) & (k[None, :] < inner), other=0.0)
        right = tl.load(b + n[None, :] * inner + k[:, None], (n[None, :] < columns) & (k[:, None] < inner), other=0.0)
        total += tl.dot(left, right)
    total += tl.load(bias + n, n < columns, other=0.0)[None, :].to(tl.float32)
    if GELU:
        total = total * tl.sigmoid(1.5957691216057308 * (total + 0.044715 * total * total * total))
    inside = (m[:, None] < rows) & (n[None, :] < columns)
    tl.store(c + m[:, None] * columns + n[None, :], total.to(c.dtype.element_ty), inside)


def linear(x, layer, gelu):
    rows, columns, inner = x.shape[0], layer.weight.shape[0], x.shape[1]
    y = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(rows, 128), triton.cdiv(columns, 128))
    product[grid](
        x, layer.weight, layer.bias, y, rows, columns, inner, GELU=gelu, M=128, N=128, K=64, num_warps=8, num_stages=3
    )
    return y


class ModelNew(nn.Module):
    """Right: the activation in the epilogue of the first product."""

    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, dtype=torch.bfloat16)
        self.down = nn.Linear(4 * width, width, dtype=torch.bfloat16)

    def forward(self, x):
        return linear(linear(x, self.up, True), self.down, False)
