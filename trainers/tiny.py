"""The tiny policy: a Llama of about a million parameters that reads and writes single characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

PAD, EOS, UNKNOWN = "<|pad|>", "<|end|>", "<|unknown|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
# One token each, because a policy this small should not spend its capacity on spelling them.
MARKUP = ("<think>", "</think>", "\\boxed{")
CHARACTERS = ("\n", *(chr(code) for code in range(32, 127)))

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

LAYERS, WIDTH, HEADS, INNER_WIDTH, LONGEST = 3, 160, 5, 448, 512
# transformers' 0.02 is meant for models many times as wide; from there one this narrow starts learning slowly.
INITIALIZER_RANGE = 0.06


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token for each printable ASCII character, for a newline and for the markup.

    What it encodes it decodes to the same text; any other character becomes `<|unknown|>`. The think tags
    and `\\boxed{` are ordinary tokens, which decoding with `skip_special_tokens` keeps.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = [PAD, EOS, UNKNOWN, *ROLES]
    vocabulary = {token: index for index, token in enumerate([*special, *MARKUP, *CHARACTERS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    core.decoder = decoders.Fuse()
    core.add_special_tokens(special)
    core.add_tokens([AddedToken(token, normalized=False, special=False) for token in MARKUP])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        additional_special_tokens=list(ROLES),
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=LONGEST,
    )


def build_tiny(seed: int) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """An untrained tiny policy and its tokenizer; one seed gives one set of weights.

    The global random state is left as it was.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=INNER_WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=LONGEST,
        initializer_range=INITIALIZER_RANGE,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = LlamaForCausalLM(config)
    return model, tokenizer
