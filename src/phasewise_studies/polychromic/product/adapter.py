"""The adapters as PEFT reads them: `PeftModel.from_pretrained(base, FOLDER)`; the base model stays where it is."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from phasewise_studies.polychromic.model.lora import Lora, projection_sizes

ADAPTER = "adapter"
# the module of a projection in one of Hugging Face's layers
PARENTS = {name: "mlp" if name in ("gate_proj", "up_proj", "down_proj") else "self_attn" for name in (
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
)}  # fmt: skip


def write_adapter(lora: Lora, base: str, folder: Path) -> None:
    """`adapter_config.json` and `adapter_model.safetensors`, A (rank, in) and B (out, rank) in float32; `base` names the model."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = {}
    for key, leaf in lora.leaves.items():
        layer, projection, kind = key.split(".")
        name = f"base_model.model.model.layers.{layer}.{PARENTS[projection]}.{projection}.lora_{kind}.weight"
        # views of one tensor, which safetensors refuses
        state[name] = leaf.detach().to("cpu", torch.float32, copy=True).contiguous()
    save_file(state, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base, "r": lora.rank,
        "lora_alpha": lora.scale * lora.rank, "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": False,
        "inference_mode": True, "target_modules": list(projection_sizes(lora.shape)),
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
