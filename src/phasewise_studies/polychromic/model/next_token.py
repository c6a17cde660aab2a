"""The merged model as a module, for exporters."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from phasewise_studies.polychromic.model.llama import Forward, hidden_states
from phasewise_studies.polychromic.model.weights import Weights


class NextToken(torch.nn.Module):
    """Logits (P, V) of the token after each prompt, without adapters: what a server of the merged model calls first."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        # parameters in name, so that torch.export stores them
        self.packed = torch.nn.ParameterDict(
            {
                name: torch.nn.Parameter(tensor, requires_grad=False)
                for name, tensor in weights.tensors().items()
                if name != "head_VD"
            }
        )
        self.head = None if weights.shape.tied else torch.nn.Parameter(weights.head_VD, requires_grad=False)
        self.shape = weights.shape

    def forward(self, prompts: Tensor, lengths: Tensor, **others: Tensor) -> Tensor:
        head = self.packed["embed_VD"] if self.head is None else self.head
        weights = Weights(shape=self.shape, head_VD=head, **{name: self.packed[name] for name in self.packed})
        prompts, lengths = prompts.reshape(-1, prompts.shape[-1]), lengths.reshape(-1)
        hidden = hidden_states(Forward(weights=weights, sdpa=True), prompts)
        # not len(): export would keep the example's
        last = hidden[torch.arange(prompts.shape[0], device=prompts.device), lengths - 1]
        return functional.linear(last, head).float()
