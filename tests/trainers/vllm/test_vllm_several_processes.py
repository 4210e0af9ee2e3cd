import os
import subprocess
import sys

import pytest

pytest.importorskip("vllm")

pytestmark = pytest.mark.slow

# Each process has other prompts and more of them, generates for itself, and gets the same new weights.
PROGRAM = """
import sys
from pathlib import Path
import torch
import torch.distributed as group
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.probe import probe
from rlvr.trainers.engines.vllm import VLLMEngine
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.models import load_model
from rlvr.trainers.weights import named_weights

group.init_process_group("gloo")
rank = group.get_rank()
loaded = load_model(sys.argv[1], device="cpu")
engine = VLLMEngine(sys.argv[1], len(loaded.tokenizer), loaded.eos_ids, dtype="float32", max_model_len=64)
prompts = [[20 + rank, 21], [30, 31, 32], [40 + rank]][: 2 + rank]
policy = TokenLogprobs(loaded.model)
first = engine.generate(prompts, Sampling(8), range(len(prompts)))
probe(engine, policy, prompts, 0, max_mean_diff=1e-4)
with torch.no_grad():
    for parameter in loaded.model.parameters():
        parameter += 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
engine.sync(named_weights(loaded.model), 1)
probe(engine, policy, prompts, 0, max_mean_diff=1e-4)
engine.close()
seen = [None] * 2
group.all_gather_object(seen, [completion.ids for completion in first])
assert seen[0][1] == seen[1][1] and len(seen[1]) == 3
group.destroy_process_group()
Path(sys.argv[2], f"{rank}.done").touch()
"""


def test_each_process_of_a_run_has_an_engine_and_keeps_its_process_group(tiny, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    folders = {"TMPDIR": str(temporary), "RLVR_CACHE": str(tmp_path / "cache")}
    ended = subprocess.run(
        [*command, str(program), str(tiny[2]), str(tmp_path)],
        env={**environment, **folders, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert {path.name for path in tmp_path.glob("*.done")} == {"0.done", "1.done"}
    # What torch's compiler makes is for later runs, too, and is not left among the temporary files.
    assert not [path for path in temporary.glob("torchinductor*/**/*") if path.is_file()]
    assert list((tmp_path / "cache").rglob("precompiled_headers"))
