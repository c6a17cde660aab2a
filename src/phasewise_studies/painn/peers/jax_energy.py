"""The plain model in JAX: what XLA makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phasewise_studies.painn.layout import Sizes, Weights


def make_jax_energy(weights: Weights, sizes: Sizes) -> Callable[..., Any]:
    """E(r, i, j, numbers) -> (sum, energy of each atom) in JAX, float32: `reference.py` once more."""
    import jax
    import jax.numpy as jnp

    w = {name: jnp.asarray(tensor.float().numpy()) for name, tensor in weights.items()}

    def dense(x: Any, name: str) -> Any:
        # without it XLA multiplies float32 in TF32 on a GPU
        return jnp.matmul(x, w[f"{name}.weight"].T, precision="highest") + w[f"{name}.bias"]

    def energy(r: Any, i: Any, j: Any, numbers: Any) -> Any:
        d = jnp.sqrt((r * r).sum(1))
        u = r / d[:, None]
        if sizes.basis == "gaussian":
            width = sizes.cutoff / (sizes.radial - 1)
            phi = jnp.exp(-0.5 * ((d[:, None] - jnp.linspace(0.0, sizes.cutoff, sizes.radial)) / width) ** 2)
        else:
            phi = jnp.sin(jnp.arange(1, sizes.radial + 1) * (jnp.pi / sizes.cutoff) * d[:, None]) / d[:, None]
        cut = 0.5 * (jnp.cos(d * (jnp.pi / sizes.cutoff)) + 1) * (d < sizes.cutoff)
        filters = jnp.split(dense(phi, "filter") * cut[:, None], sizes.layers, axis=1)
        q, f = w["embedding"][numbers], sizes.features
        mu = jnp.zeros((len(q), 3, f))
        for layer in range(sizes.layers):
            name = f"message.{layer}"
            x = dense(jax.nn.silu(dense(q, f"{name}.1")), f"{name}.2")
            m_q, m_r, m_mu = jnp.split(filters[layer] * x[j], 3, axis=1)
            vector = u[:, :, None] * m_r[:, None] + mu[j] * m_mu[:, None]
            q, mu = q + jax.ops.segment_sum(m_q, i, len(q)), mu + jax.ops.segment_sum(vector, i, len(q))
            name = f"update.{layer}"
            v, gate = jnp.split(jnp.matmul(mu, w[f"{name}.mix.weight"].T, precision="highest"), 2, axis=-1)
            norm = jnp.sqrt((v * v).sum(1) + sizes.epsilon)
            hidden = jax.nn.silu(dense(jnp.concatenate((q, norm), axis=1), f"{name}.1"))
            a, b, c = jnp.split(dense(hidden, f"{name}.2"), 3, axis=1)
            q, mu = q + a + c * (v * gate).sum(1), mu + b[:, None] * gate
        per_atom = dense(jax.nn.silu(dense(q, "readout.1")), "readout.2")[:, 0]
        return per_atom.sum(), per_atom

    return energy
