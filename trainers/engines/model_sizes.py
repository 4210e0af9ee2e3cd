"""The sizes by which the policy and the model that a server has are told apart. No torch in here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
)


@dataclass(frozen=True)
class ModelSizes:
    """What a model is called, and how large it is.

    Attributes:
        name: the folder or the name that it came from; may be empty.
        sizes: numbers by their names in a config of Hugging Face, as far as they are known.
    """

    name: str
    sizes: Mapping[str, int]

    def differences(self, other: ModelSizes) -> list[str]:
        """Names of the sizes that both have and that differ."""
        both = [name for name in _SIZES if name in self.sizes and name in other.sizes]
        return [name for name in both if self.sizes[name] != other.sizes[name]]


def sizes_of(config: Any) -> dict[str, int]:
    """Those of transformers' config of a model; of one that also sees or hears, those of its text model."""
    text = config.get_text_config()
    return _numbers({name: getattr(text, name, None) for name in _SIZES})


def sizes_in(folder: str) -> dict[str, int]:
    """Those in the `config.json` of a folder; none where it cannot be read."""
    try:
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(config, dict):
        return {}
    text = config.get("text_config")
    return _numbers({**config, **(text if isinstance(text, dict) else {})})


def told_sizes(answer: Any) -> dict[str, int]:
    """Those that a server's worker told, which may be of another version."""
    return _numbers(answer) if isinstance(answer, dict) else {}


def _numbers(values: Mapping[str, Any]) -> dict[str, int]:
    return {name: values[name] for name in _SIZES if type(values.get(name)) is int}
