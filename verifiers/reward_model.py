"""The verifier that asks a reward model: a sequence-classification model from `transformers`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

from ..sandbox.errors import UserError
from ..sandbox.nearest import did_you_mean
from .batch_options import rows_by_options, rows_of
from .number_options import check_count, check_number
from .registry import verifier
from .verdict import Verdict, failure

_DTYPES = ("auto", "float32", "bfloat16", "float16")
_OPTIONS = ("model", "label", "sigmoid", "threshold", "batch_size", "max_length", "dtype", "device")
_INPUTS = ("input_ids", "token_type_ids")
_loading = Lock()


def check_options(**options: Any) -> None:
    """Raise UserError if one of these options of `reward_model` is not one of the possible values."""
    for name in ("batch_size", "max_length"):
        if name in options:
            check_count(name, options[name])
    if options.get("threshold") is not None:
        check_number("threshold", options["threshold"])
    if not isinstance(options.get("sigmoid", False), bool):
        raise UserError(f"sigmoid={options['sigmoid']!r} is neither true nor false; pass True or False.")
    dtype = options.get("dtype", "auto")
    if dtype not in _DTYPES:
        raise UserError(f"There is no dtype {dtype!r}; {did_you_mean(str(dtype), _DTYPES)}")


@verifier("rlvr/reward-model-v1", check=check_options)
def reward_model(
    completions: Sequence[str],
    model: Any,
    prompts: Any = None,
    label: Any = None,
    sigmoid: Any = False,
    threshold: Any = None,
    batch_size: Any = 16,
    max_length: Any = 4096,
    dtype: Any = "auto",
    device: Any = None,
) -> list[Verdict]:
    r"""What a reward model makes of each completion as an answer to its prompt.

    A model with one label scores its raw output, \(\sigma\) of it where `sigmoid` is set; one with several
    scores the probability of `label`. Of an output that is not finite the verdict is "error". A verdict does
    not depend on what else is in the batch, beyond the rounding of the arithmetic.

    The pair is rendered by the tokenizer's chat template, or by the tokenizer's own way to join a pair where
    there is none. The tokenizer's special tokens are taken out of the texts, lest a completion ends its own
    turn and goes on as somebody else. Of what is too long, for `max_length` or for the model, the beginning
    is cut off, so that the completion stays. The model is loaded on first use and kept, once for each
    `model`, `dtype` and `device`.

    Args:
        completions: what the model that is being trained wrote. This and each other argument is a list of one
            entry a completion; what is no list holds for all.
        model: the directory, or the name on the Hugging Face hub, of the reward model.
        prompts: the prompt of each completion, a text or a list of chat messages; None scores completions alone.
        label: the label whose probability is the score, by number or name; by default the last one.
        sigmoid: whether the output of a model with one label is squashed into (0, 1).
        threshold: the least score that passes; by default 0 for a raw output and 0.5 for a probability.
        batch_size: how many pairs go through the model at a time.
        max_length: the most tokens of a pair.
        dtype: "auto" (as the weights are stored), "float32", "bfloat16" or "float16".
        device: such as "cuda:1"; by default the first GPU, or else the CPU.

    Raises:
        UserError: an option is not one of the possible values, the model cannot be loaded, or `transformers` is
            not installed.
    """
    rows = rows_of(
        len(completions),
        completion=list(completions),
        prompt=prompts,
        model=model,
        label=label,
        sigmoid=sigmoid,
        threshold=threshold,
        batch_size=batch_size,
        max_length=max_length,
        dtype=dtype,
        device=device,
    )
    verdicts: list[Verdict] = [failure("not graded")] * len(rows)
    groups = rows_by_options(rows, _OPTIONS)
    # All of them before the first model is loaded.
    for options, _ in groups:
        check_options(**options)
    for options, members in groups:
        pairs = [(rows[index]["prompt"], rows[index]["completion"]) for index in members]
        for index, verdict in zip(members, _grade_pairs(pairs, **options), strict=True):
            verdicts[index] = verdict
    return verdicts


def _grade_pairs(
    pairs: Sequence[tuple[Any, str]],
    model: object,
    label: int | str | None,
    sigmoid: bool,
    threshold: float | None,
    batch_size: int,
    max_length: int,
    dtype: str,
    device: str | None,
) -> list[Verdict]:
    scorer = load_scorer(model, dtype, device)
    index = scorer.label_index(label)
    encoded = [scorer.encode(prompt, completion, max_length) for prompt, completion in pairs]
    least = (0.0 if index is None and not sigmoid else 0.5) if threshold is None else threshold
    return [
        Verdict(score, score >= least)
        if math.isfinite(score)
        else failure(f"the reward model {model!r} gave {score}, no finite number")
        for score in scorer.scores(encoded, batch_size, index, sigmoid)
    ]


Row = dict[str, list[int]]
"""A tokenized pair: "input_ids" and, for models that tell the two texts apart, "token_type_ids"."""


class Scorer:
    """A loaded reward model with its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self._config = model.config.get_text_config()
        self._padding: int | None = self._config.pad_token_id
        self._lock = Lock()
        self._tells_texts_apart = getattr(self._config, "type_vocab_size", 0) > 1
        limits = (getattr(self._config, "max_position_embeddings", None), tokenizer.model_max_length)
        self._longest = min((limit for limit in limits if limit), default=1 << 30)

    def label_index(self, label: int | str | None) -> int | None:
        """The number of a label; None for a model that has one only, and so no choice.

        Raises:
            UserError: the model has no such label.
        """
        names = {str(name): int(index) for index, name in self.model.config.id2label.items()}
        count = int(self.model.config.num_labels)
        if count == 1:
            if label is not None:
                raise UserError(f"The reward model has one label, so label={label!r} has no meaning; leave it out.")
            return None
        if label is None:
            return count - 1
        if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < count:
            return label
        if str(label) in names:
            return names[str(label)]
        raise UserError(f"The reward model has no label {label!r}; {did_you_mean(str(label), names)}")

    def encode(self, prompt: Any, completion: str, max_length: int) -> Row:
        """The tokens of a pair, without its beginning where it is too long; a special token at the front stays."""
        if self.tokenizer.chat_template:
            messages = self._messages(prompt, completion)
            row = {"input_ids": list(self.tokenizer.apply_chat_template(messages, return_dict=False))}
        else:
            texts = [self._clean(text) for text in (_plain_text(prompt), completion) if text is not None]
            encoded = self.tokenizer(*texts, return_token_type_ids=self._tells_texts_apart)
            row = {name: list(encoded[name]) for name in _INPUTS if name in encoded}
        # A text of no tokens at all still has a score: that of one token which ends or pads.
        row = row if row["input_ids"] else {"input_ids": [self._any_special_token()]}
        longest = min(max_length, self._longest)
        if len(row["input_ids"]) <= longest:
            return row
        kept = int(longest > 1 and row["input_ids"][0] in self.tokenizer.all_special_ids)
        return {name: values[:kept] + values[len(values) - (longest - kept) :] for name, values in row.items()}

    def scores(self, rows: Sequence[Row], batch_size: int, label: int | None, sigmoid: bool) -> list[float]:
        """The score of each row, in their order."""
        # Rows of like lengths go together, which saves padding.
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]["input_ids"]))
        scores = [0.0] * len(rows)
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            for row, score in zip(chosen, self._forward([rows[row] for row in chosen], label, sigmoid), strict=True):
                scores[row] = score
        return scores

    def _forward(self, rows: Sequence[Row], label: int | None, sigmoid: bool) -> list[float]:
        import torch

        width = max(len(row["input_ids"]) for row in rows)
        padding = self._unused_token(rows) if self._padding is None else self._padding
        inputs = {"attention_mask": torch.zeros((len(rows), width), dtype=torch.long)}
        for name in rows[0]:
            inputs[name] = torch.full((len(rows), width), padding if name == "input_ids" else 0)
        for index, row in enumerate(rows):
            # On the right, where positions are right without being told.
            for name, values in row.items():
                inputs[name][index, : len(values)] = torch.tensor(values)
            inputs["attention_mask"][index, : len(row["input_ids"])] = 1
        inputs = {name: values.to(self.model.device) for name, values in inputs.items()}
        # The lock keeps the padding, which is a setting of the model, and the peak of memory to one caller.
        with self._lock, torch.inference_mode():
            self._config.pad_token_id = padding
            logits = self.model(**inputs).logits.float()
        if label is not None:
            values = logits.softmax(-1)[:, label]
        else:
            values = logits[:, 0].sigmoid() if sigmoid else logits[:, 0]
        return [float(value) for value in values.cpu()]

    def _unused_token(self, rows: Sequence[Row]) -> int:
        """A token to pad with for a model that names none: these models score the last token that is no padding."""
        used = {token for row in rows for token in row["input_ids"]}
        return next(token for token in range(self._config.vocab_size + 1) if token not in used)

    def _any_special_token(self) -> int:
        for token in (self.tokenizer.eos_token_id, self.tokenizer.pad_token_id, self.tokenizer.unk_token_id):
            if token is not None:
                return int(token)
        return 0

    def _messages(self, prompt: Any, completion: str) -> list[dict[str, str]]:
        asked = [] if prompt is None else [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        return [
            {**message, "content": self._clean(message["content"])}
            for message in (*asked, {"role": "assistant", "content": completion})
        ]

    def _clean(self, text: str) -> str:
        for token in self.tokenizer.all_special_tokens:
            # A space and not nothing, or what stands around a token could make up another.
            text = text.replace(token, " ")
        return text


def load_scorer(model: object, dtype: str, device: str | None) -> Scorer:
    """The reward model in a directory or on the hub, loaded once for each combination of arguments.

    Raises:
        UserError: it cannot be loaded, or `transformers` is not installed.
    """
    # The lock keeps two threads from loading the same weights at once.
    with _loading:
        return _load(str(model), dtype, device)


@lru_cache(maxsize=4)
def _load(model: str, dtype: str, device: str | None) -> Scorer:
    try:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
    except ModuleNotFoundError as error:
        raise UserError(
            f"rlvr/reward-model-v1 needs the package {error.name!r}; install it with: pip install 'rlvr[train]'."
        ) from None
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        loaded = AutoModelForSequenceClassification.from_pretrained(model, dtype=dtype)
    except (OSError, ValueError) as error:
        first_line = str(error).strip().partition("\n")[0]
        raise UserError(f"The reward model {model!r} cannot be loaded ({first_line}); name its directory.") from None
    return Scorer(loaded.to(place).eval(), tokenizer)


def _plain_text(prompt: Any) -> str | None:
    if prompt is None or isinstance(prompt, str):
        return prompt
    return "".join(f"{message['content']}\n" for message in prompt)
