import sys

import pytest

from rlvr import UserError
from rlvr.trainers.sharding import check_sharding_settings


@pytest.fixture
def started(monkeypatch):
    """Sets what `accelerate launch` sets for DeepSpeed, with a change."""

    def start(**changes):
        variables = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3", **changes}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return start


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2", "zero_stage: 2, which the training loop does not .* set it to 3"),
        ("ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "nvme", "offload_optimizer_device: nvme, .* set it to none"),
        ("ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", "cpu", "offload_param_device: cpu, .* set it to none"),
        ("ACCELERATE_DEEPSPEED_ZERO3_INIT", "true", "zero3_init_flag: true, .* set it to false"),
        ("ACCELERATE_DEEPSPEED_CONFIG_FILE", "ds.json", "deepspeed_config_file: ds.json, .* set it to none"),
        ("ACCELERATE_GRADIENT_CLIPPING", "0.5", "gradient_clipping: 0.5, .* set it to none"),
    ],
)
def test_what_the_loop_does_not_do_of_deepspeed_is_refused(started, variable, value, sentence):
    started(**{variable: value})
    with pytest.raises(UserError, match=sentence):
        check_sharding_settings()


def test_without_deepspeed_it_is_said_what_to_install(started, monkeypatch):
    started()
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    with pytest.raises(UserError, match=r"not installed; pip install 'rlvr\[deepspeed\]'"):
        check_sharding_settings()


def test_settings_of_deepspeed_do_not_matter_where_it_was_not_asked_for(started):
    started(ACCELERATE_USE_DEEPSPEED="false", ACCELERATE_DEEPSPEED_ZERO_STAGE="2")
    check_sharding_settings()
