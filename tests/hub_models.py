"""Stand-ins for models of the Hugging Face hub: what they take, return and carry around."""

from collections import OrderedDict, UserDict
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree


class ModelOutput(OrderedDict[str, Any]):
    """Named members, each also an attribute."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


_pytree.register_pytree_node(
    ModelOutput,
    lambda out: (list(out.values()), list(out)),
    lambda values, names: ModelOutput(zip(names, values, strict=True)),
    serialized_type_name="tests.hub_models.ModelOutput",
)


class BatchEncoding(UserDict[str, Any]):
    """What a tokenizer returns."""


class Cache:
    """Keys and values of earlier calls."""

    def __init__(self) -> None:
        self.keys, self.values = torch.zeros(0), torch.zeros(0)

    def update(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.keys, self.values = (
            torch.cat([self.keys.to(keys), keys], -2),
            torch.cat([self.values.to(keys), values], -2),
        )
        return self.keys, self.values


class Config:
    """Settings, and the folder they were read from."""

    def __init__(self, folder: str, heads: int = 2) -> None:
        self._name_or_path, self.heads = folder, heads


class Decoder(nn.Module):
    """One attention layer that keeps a cache by default; classifies sequences."""

    def __init__(self, folder: str = "here", heads: int = 2) -> None:
        super().__init__()
        self.config, self.name_or_path = Config(folder, heads), folder
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 3)
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool = True,
    ) -> ModelOutput:
        x = self.embed(input_ids)
        q, k, v = (f(x).unflatten(-1, (self.config.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        cache = Cache()
        k, v = cache.update(k, v)
        mask = None if attention_mask is None else attention_mask[:, None, None, :].bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        out = ModelOutput(logits=self.head((x + self.o(y)).mean(1)))
        if labels is not None:
            out["loss"] = F.cross_entropy(out.logits, labels)
        if use_cache:
            out["past_key_values"] = cache
            out["legacy"] = ((k, v), cache)
        return out


def encoded(samples: int = 4, **more: Tensor) -> BatchEncoding:
    """Some sequences of five tokens, the last of which is padding."""
    tokens = torch.randint(11, (samples, 5), generator=torch.Generator().manual_seed(samples))
    mask = torch.ones(samples, 5, dtype=torch.long)
    mask[:, -1] = 0
    return BatchEncoding({"input_ids": tokens, "attention_mask": mask, **more})
