"""The architecture that a folder of Hugging Face describes, built by ``transformers``; its code never runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from .entries import with_entries
from .sharded import CONFIG


def trained_model(folder: Path, tensors: Mapping[str, Tensor]) -> nn.Module:
    """The model of a folder with its weights, in eval mode."""
    return with_entries(model_of(folder), tensors, f"the model of {folder}").eval()


def model_of(folder: Path) -> nn.Module:
    """An untrained model of the class and sizes in ``config.json``; needs ``transformers``, the extra ``hf``."""
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError as error:
        raise ImportError(
            f"{folder} describes its architecture in {CONFIG}, for which transformers is needed and not installed: "
            "pip install 'wsgraph[hf]', or bring the module yourself (--model package.module:Class)"
        ) from error
    try:
        config = transformers.AutoConfig.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
    except Exception as error:  # of many kinds, by what is wrong with the file
        raise ValueError(f"transformers cannot use {folder / CONFIG}: {error}") from error
    name = next(iter(getattr(config, "architectures", None) or ()), None)
    kind = getattr(transformers, name, None) if isinstance(name, str) else None
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise ValueError(
            f"{folder / CONFIG} names the architecture {name!r}, expected a model of the installed transformers; code "
            "in the folder is never run: bring the module yourself (--model package.module:Class)"
        )
    config.use_cache = False  # what a model keeps between calls is no part of its function
    return kind(config).eval()
