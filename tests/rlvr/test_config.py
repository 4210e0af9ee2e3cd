from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from rlvr import UserError
from rlvr.config import find_recipe, import_extensions, load_config
from rlvr.trainers.absolute_paths import with_absolute_paths
from rlvr.trainers.run_dir import save_config
from rlvr.trainers.settings import TrainConfig

RECIPES = sorted(Path(str(files("rlvr.configs"))).glob("*.yaml"))
SMALLEST = {"model": {"name": "somewhere"}, "env": {"id": "rlvr/Arithmetic-v0"}}


def write(folder: Path, content) -> str:
    path = folder / "run.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return str(path)


def refusal(recipe: str, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load_config(recipe, overrides)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence[-1] in ".?"
    return sentence


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_valid_and_found_by_its_bare_name(recipe, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert load_config(recipe.stem) == load_config(recipe.name) == load_config(str(recipe))


def test_there_is_a_recipe_to_start_with():
    assert "quickstart" in [recipe.stem for recipe in RECIPES]


def test_a_file_of_the_users_goes_before_a_recipe_of_that_name(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart.yaml").write_text(yaml.safe_dump(SMALLEST))
    assert load_config("quickstart.yaml").model.name == "somewhere"
    assert load_config("quickstart").model.name == "tiny"


def test_a_file_gives_what_it_says_and_defaults_for_the_rest(tmp_path):
    config = load_config(write(tmp_path, {**SMALLEST, "train": {"steps": 7}}))
    assert (config.model.name, config.train.steps, config.train.group_size) == ("somewhere", 7, 8)
    assert config.algorithm.name == "grpo"
    assert config.algorithm.advantage == "group_mean_std"
    assert config.eval_env.options["split"] == "eval"


def test_overrides_win_over_the_file_and_are_yaml(tmp_path):
    overrides = [
        "train.steps=3",
        "train.learning_rate=1e-4",
        "eval.k=[1, 2]",
        "env.options.level=4",
        "env.options.template={expression}=",
        "env.options.system=null",
        "algorithm.name=dr_grpo",
        "seed=5",
        "run_dir=a=b",
    ]
    quoted = ["env.options.template='{expression}='" if "template" in text else text for text in overrides]
    config = load_config(write(tmp_path, {**SMALLEST, "train": {"steps": 7, "epochs": 2}}), quoted)
    assert (config.train.steps, config.train.epochs, config.train.learning_rate) == (3, 2, 1e-4)
    assert config.eval.k == (1, 2)
    assert config.env.options == {"level": 4, "template": "{expression}=", "system": None}
    assert (config.algorithm.aggregate, config.seed, config.run_dir) == ("fixed_length", 5, "a=b")


def test_a_later_override_wins_and_may_follow_a_whole_section(tmp_path):
    recipe = write(tmp_path, SMALLEST)
    config = load_config(recipe, ["train={steps: 4, epochs: 3}", "train.steps=5", "train.steps=6"])
    assert (config.train.steps, config.train.epochs) == (6, 3)


def test_one_cell_of_the_algorithm_may_be_another(tmp_path):
    config = load_config(write(tmp_path, SMALLEST), ["algorithm.aggregate=token_mean"])
    assert (config.algorithm.name, config.algorithm.aggregate) == ("grpo", "token_mean")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.learning_rte=1", ["Unknown key 'train.learning_rte'", "on the command line", "'learning_rate'?"]),
        ("trian.steps=1", ["Unknown key 'trian'", "'train'?"]),
        ("model.warm_start.carless=1", ["'model.warm_start.carless'", "'careless'?"]),
        ("eval.env.idd=a", ["'eval.env.id'", "missing"]),
        ("train.steps=many", ["train.steps is 'many' on the command line", "integer"]),
        ("train.steps=0", ["train.steps is 0", "greater than or equal to 1"]),
        ("train.precision=fp16", ["train.precision is 'fp16'", "'bf16'"]),
        ("train=5", ["train is 5", "section", "learning_rate"]),
        ("algorithm=grpo", ["algorithm is 'grpo'", "section"]),
        ("algorithm.name=grpp", ["On the command line: there is no algorithm 'grpp'; did you mean 'grpo'?"]),
        ("algorithm.name=[1]", ["no algorithm [1]"]),
        ("algorithm={name: dr_grpo, kl_coef: 0.1}", ["kl_coef is 0.1 but kl is 'none'"]),
        ("eval.k=[1, 99]", ["eval.k is [1, 99]", "from 1 to n"]),
        ("eval.k=[]", ["eval.k is []"]),
        ("train.minibatches=1000", ["minibatches is 1000"]),
        ("model.name=elsewhere", ["model.warm_start makes the model 'tiny', not 'elsewhere'"]),
        ("model.warm_start=null", ["model.name is 'tiny'", "add that section"]),
        ("train.steps", ["'train.steps' is no override; write key=value"]),
        ("=3", ["'=3' is no override"]),
        ("train.steps=[1", ["'train.steps=[1' is not valid YAML (line 1, column 3"]),
        ("model.name.a=3", ["sets a key of 'name'"]),
        ("log.trackers=[wandbb]", ["'wandb'"]),
        (
            "log.trackers=tensorboard",
            ["'tensorboard' on the command line, but it is a list; write it as [tensorboard]."],
        ),
        ("eval.k=8", ["eval.k is 8 on the command line, but it is a list; write it as [8]."]),
        ("imports=mine.py", ["imports is 'mine.py'", "write it as [mine.py]."]),
        ("engine.servers=http://a:1", ["engine.servers is 'http://a:1'", "write it as ['http://a:1']."]),
        ("eval.k={a: 1}", ["eval.k is {'a': 1}", "tuple"]),
        ("train.group_size=1", ["On the command line: train.group_size is 1"]),
    ],
)
def test_a_wrong_override_is_one_sentence(override, words):
    sentence = refusal("quickstart", override)
    for word in words:
        assert word in sentence


def test_a_rule_about_several_sections_is_broken_by_the_file_or_by_what_was_added(tmp_path):
    broken = write(tmp_path, {**SMALLEST, "critic": {}})
    assert refusal(broken, "seed=3").startswith(f"In {broken}: there is a section critic")
    whole = write(tmp_path, SMALLEST)
    assert refusal(whole, "critic={}").startswith("On the command line: there is a section critic")


def test_a_mistake_in_the_file_is_said_to_be_there(tmp_path):
    recipe = write(tmp_path, {**SMALLEST, "train": {"learning_rte": 1}})
    assert refusal(recipe, "seed=3") == (f"Unknown key 'train.learning_rte' in {recipe}; did you mean 'learning_rate'?")
    recipe = write(tmp_path, {**SMALLEST, "eval": {"n": 2, "k": [4]}})
    assert refusal(recipe) == f"In {recipe}: eval.k is [4] but n is 2; every k must be from 1 to n."


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"env": {"id": "a/B-v0"}}, ["'model' is missing"]),
        ({"model": {"name": "a"}, "env": {}}, ["'env.id' is missing"]),
        ("model: [unclosed", ["not valid YAML"]),
        ("", ["no mapping of settings", "quickstart"]),
        ("- a\n- b\n", ["no mapping of settings"]),
        ("model: !!python/object/apply:os.system [exit]", ["not valid YAML"]),
        ({**SMALLEST, 3: 4}, ["3"]),
    ],
)
def test_a_file_that_does_not_do_is_one_sentence(tmp_path, content, words):
    sentence = refusal(write(tmp_path, content))
    for word in ["run.yaml", *words]:
        assert word in sentence


def test_a_long_value_is_not_repeated_whole(tmp_path):
    assert len(refusal(write(tmp_path, {**SMALLEST, "train": {"steps": "x" * 10_000}}))) < 300


def test_a_file_that_is_no_text_is_one_sentence(tmp_path):
    (tmp_path / "run.yaml").write_bytes(b"\xff\xfe\x00binary")
    assert "not valid YAML" in refusal(str(tmp_path / "run.yaml"))


@pytest.mark.parametrize("name", ["nowhere.yaml", "nowhere", "some/quickstart", "", "configs"])
def test_a_missing_file_is_one_sentence_that_names_the_recipes(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    sentence = refusal(name)
    assert repr(name) in sentence
    assert "quickstart" in sentence


def test_what_was_saved_loads_to_the_same(tmp_path):
    overrides = ["eval.k=[1, 4]", "model.warm_start.terms=[2, 3]", "imports=[a.b]", "run_dir=über", "env.options.x=1"]
    config = load_config("quickstart", overrides)
    save_config(config, tmp_path / "deep" / "config.yaml")
    assert load_config(str(tmp_path / "deep" / "config.yaml")) == config
    # Defaults too, so that the file repeats the run when they have changed.
    written = yaml.safe_load((tmp_path / "deep" / "config.yaml").read_text(encoding="utf-8"))
    assert written["train"]["adam_betas"] == [0.9, 0.999]


def test_files_to_import_are_found_from_any_folder_once_a_run_is_saved(tmp_path, monkeypatch):
    (tmp_path / "extension_of_a_run.py").write_text("")
    monkeypatch.chdir(tmp_path)
    saved = tmp_path / "run" / "config.yaml"
    given = load_config("quickstart", ["imports=[./extension_of_a_run.py, json.decoder]"])
    save_config(with_absolute_paths(given), saved)
    monkeypatch.chdir(saved.parent)
    config = load_config(str(saved))
    try:
        import_extensions(config.imports)
        assert sys.modules["extension_of_a_run"].__file__ == str(tmp_path / "extension_of_a_run.py")
    finally:
        sys.modules.pop("extension_of_a_run", None)
    (tmp_path / "extension_of_a_run.py").unlink()
    with pytest.raises(UserError, match=f"no file '{tmp_path}/extension_of_a_run.py' to import"):
        import_extensions(config.imports)


def test_what_a_configuration_names_in_the_current_folder_is_named_from_the_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model", "critic"):
        (tmp_path / name).mkdir()
    for name in ("chat.jinja", "tasks.jsonl", "held_out.jsonl"):
        (tmp_path / name).write_text("")
    config = TrainConfig.model_validate(
        {
            "model": {"name": "model", "chat_template": "./chat.jinja"},
            "env": {"id": "rlvr/GSM8K-v0", "options": {"path": "tasks.jsonl", "hub": "model"}},
            "eval": {
                "env": {"id": "rlvr/Math-v0", "options": {"path": {"train": "no.jsonl", "eval": "held_out.jsonl"}}}
            },
            "algorithm": {"name": "ppo"},
            "critic": {"model": "critic"},
        }
    )
    found = with_absolute_paths(config)
    assert (found.model.name, found.model.chat_template) == (f"{tmp_path}/model", f"{tmp_path}/chat.jinja")
    assert found.env.options == {"path": f"{tmp_path}/tasks.jsonl", "hub": "model"}
    assert found.eval.env.options == {"path": {"train": "no.jsonl", "eval": f"{tmp_path}/held_out.jsonl"}}
    assert found.critic.model == f"{tmp_path}/critic"
    assert with_absolute_paths(found) == found


def test_what_is_not_in_the_current_folder_stays_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    for name in ("quickstart", "qwen2.5_0.5b_gsm8k"):
        config = load_config(name)
        assert with_absolute_paths(config) == config


def test_the_recipe_is_the_packaged_file():
    assert find_recipe("quickstart") in RECIPES


def test_a_file_is_imported_once(tmp_path):
    path = tmp_path / "extension_imported_once.py"
    path.write_text("loaded = []\n")
    try:
        import_extensions([str(path), str(path)])
        sys.modules[path.stem].loaded.append(1)
        import_extensions([str(path)])
        assert sys.modules[path.stem].loaded == [1]
    finally:
        sys.modules.pop(path.stem, None)


def test_a_file_that_fails_is_not_taken_for_loaded(tmp_path):
    path = tmp_path / "extension_that_fails.py"
    path.write_text("1 / 0\n")
    for _ in range(2):
        with pytest.raises(UserError, match=r"extension_that_fails.py:1: ZeroDivisionError: division by zero"):
            import_extensions([str(path)])
    assert path.stem not in sys.modules


@pytest.mark.parametrize("name", ["no_such_module", "yaml.no_such_module", "", ".relative", "a-b", "nowhere.py"])
def test_an_extension_that_is_not_there_is_a_user_error(name):
    with pytest.raises(UserError, match="to import; give a module or the path of a"):
        import_extensions([name])


def test_a_file_may_not_hide_a_module(tmp_path):
    (tmp_path / "json.py").write_text("")
    with pytest.raises(UserError, match="'json' is loaded already; rename"):
        import_extensions([str(tmp_path / "json.py")])


def test_what_an_extension_itself_lacks_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "extension_that_lacks.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"extension_that_lacks.py:1: ModuleNotFoundError: .*no_such_dependency"):
        import_extensions(["extension_that_lacks"])


@pytest.mark.parametrize("module", ["rlvr", "rlvr.config", "rlvr.cli", "rlvr.envs", "rlvr.verifiers"])
def test_nothing_heavy_is_imported(module):
    heavy = ("torch", "transformers", "datasets", "accelerate", "docker", "vllm", "pyarrow", "pandas")
    code = (
        f"import sys, {module}\n"
        "if 'config' in sys.argv[1]: from rlvr.config import load_config; load_config('quickstart')\n"
        f"sys.exit(', '.join(name for name in {heavy} if name in sys.modules) or 0)"
    )
    subprocess.run([sys.executable, "-c", code, module], check=True)


RUBRIC = [{"gate": "rlvr/think-v1"}, {"score": "rlvr/number-v1", "weight": 1.0}]


def test_the_rubric_reaches_both_environments_and_is_saved(tmp_path):
    recipe = write(tmp_path, {**SMALLEST, "env": {**SMALLEST["env"], "rubric": RUBRIC, "options": {"level": 2}}})
    config = load_config(recipe, ["env.rubric.1.weight=0.5", "env.rubric.0={gate: {threshold: rlvr/think-v1}}"])
    rubric = [{"gate": {"threshold": "rlvr/think-v1"}}, {"score": "rlvr/number-v1", "weight": 0.5}]
    assert config.env.arguments == {"level": 2, "rubric": rubric}
    assert config.eval_env.arguments == {"level": 2, "split": "eval", "rubric": rubric}
    save_config(config, tmp_path / "saved.yaml")
    assert load_config(str(tmp_path / "saved.yaml")) == config


def test_without_a_rubric_the_environments_own_is_used(tmp_path):
    config = load_config(write(tmp_path, SMALLEST))
    assert "rubric" not in config.env.arguments
    assert "rubric" not in config.eval_env.arguments


def test_a_rubric_file_is_saved_by_its_content(tmp_path):
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text(yaml.safe_dump(RUBRIC))
    config = load_config(write(tmp_path, SMALLEST), [f"env.rubric={rubric}"])
    rubric.unlink()
    assert config.env.rubric == RUBRIC
    save_config(config, tmp_path / "saved.yaml")
    assert load_config(str(tmp_path / "saved.yaml")).env.arguments == {"rubric": RUBRIC}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["env.rubric=gone.yaml"], ["rubric file 'gone.yaml' cannot be read"]),
        (["env.rubric=5"], ["env.rubric is a int", "list of parts"]),
        (["env.rubric=[]", "env.options.rubric=rlvr/number-v1"], ["both given"]),
        (["env.rubric=[1, 2]", "env.rubric.2.weight=1"], ["'2' in a list of 2", "from 0"]),
        (["env.rubric=[1, 2]", "env.rubric.first=1"], ["'first' in a list of 2"]),
        (["env.rubric=[1, 2]", "env.rubric.1.weight=1"], ["sets a key of '1'"]),
        (["env.rubic=[]"], ["Unknown key 'env.rubic'", "'rubric'?"]),
    ],
)
def test_a_rubric_that_is_none_is_one_sentence(tmp_path, overrides, words):
    sentence = refusal(write(tmp_path, SMALLEST), *overrides)
    for word in words:
        assert word in sentence
