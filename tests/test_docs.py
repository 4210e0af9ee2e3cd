"""What the documentation shows runs, and its tables hold every setting with its default."""

import re
from pathlib import Path

import pytest

from rlvr.trainers.algorithms import ALGORITHMS, Algorithm
from rlvr.trainers.critic_settings import CriticSettings
from rlvr.trainers.monitor_settings import ALARM_NAMES, MonitorSettings

DOCS = Path(__file__).parents[1] / "docs"


def text_of(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def rows_of(name):
    """The cells of every row of every table."""
    lines = (line for line in text_of(name).splitlines() if line.startswith("| "))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def defaults_of(model):
    return {name: field.default for name, field in model.model_fields.items() if not field.is_required()}


def as_value(text):
    """What a cell says, as YAML would read it."""
    word = text.strip("`")
    if word in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[word]
    try:
        return float(word)
    except ValueError:
        return word


def test_the_snippets_about_environments_run():
    code = re.findall(r"^```python\n(.*?)^```", text_of("environments"), re.MULTILINE | re.DOTALL)
    assert len(code) >= 5
    exec(compile("\n".join(code), "environments.md", "exec"), {"__name__": "snippets"})  # one module, block by block


def test_every_cell_of_an_algorithm_is_in_the_table():
    shown = {row[0].strip("`"): as_value(row[1]) for row in rows_of("algorithms") if len(row) == 3}
    of_a_row = {name for name, field in Algorithm.model_fields.items() if field.is_required()} - {"kl_estimator"}
    assert {name: shown.get(name) for name in of_a_row} == dict.fromkeys(of_a_row, "of the row")
    defaults = {name: value for name, value in defaults_of(Algorithm).items() if name != "name"}
    assert {name: shown.get(name, "missing") for name in defaults} == defaults
    assert "kl_estimator" in shown


def test_every_algorithm_is_in_the_table():
    assert set(ALGORITHMS) <= {row[0].strip("`") for row in rows_of("algorithms")}


def test_every_setting_of_the_critic_is_in_the_table():
    shown = {row[0].strip("`"): as_value(row[1]) for row in rows_of("algorithms") if row[0].startswith("`critic.")}
    assert shown == {f"critic.{name}": value for name, value in defaults_of(CriticSettings).items()}


def test_every_alarm_is_in_the_table():
    assert {row[0].strip("`") for row in rows_of("monitor") if len(row) == 4} - {"alarm", "---"} == set(ALARM_NAMES)


@pytest.mark.parametrize("name", sorted(set(MonitorSettings.model_fields) - {"stop_on", "ignore"}))
def test_every_threshold_is_told_with_its_default(name):
    default = MonitorSettings.model_fields[name].default
    found = re.search(rf"`{name}`(?: steps)? \(?([0-9][0-9.e-]*)", text_of("monitor"))
    assert found, f"docs/monitor.md does not tell the default of {name}"
    assert float(found[1].rstrip(".")) == default
