"""The plan's parts of an update against every tensor that torch allocates in one."""

import subprocess
import sys
from itertools import accumulate

import pytest
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, LlamaConfig

from selfplay.learning.learner import Learner, TrainingSample
from selfplay.learning.settings import LearnerConfig
from selfplay.planning.architecture import read_architecture
from selfplay.planning.learner_memory import learner_parts
from selfplay.planning.workload import Rows, Workload

SHAPE = LlamaConfig(
    vocab_size=2048,
    hidden_size=128,
    intermediate_size=384,
    num_hidden_layers=8,
    num_attention_heads=4,
    num_key_value_heads=2,
)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("chunk", [128, 0], ids=["chunks", "one chunk"])
def test_an_update_takes_what_its_parts_say(tmp_path, checkpointing, chunk):
    SHAPE.save_pretrained(tmp_path)
    saving = {"gradient_checkpointing": checkpointing, "logits_chunk_tokens": chunk}
    config = LearnerConfig(r=4, noise_groups=0, micro_batch_tokens=2048, **saving)
    learner = Learner(AutoModelForCausalLM.from_config(SHAPE), 0, ["a", "b"], config, seed=0)
    ids = tuple(range(512))
    samples = [
        TrainingSample("ab"[i % 2], ids[:256], ids[256:], (-1.0,) * 256, (-1.0) ** i)
        for i in range(4)
    ]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        learner.update(samples)
    changes = [e.nbytes() for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    rows = Rows(count=4, prompt=256, longest_prompt=256, limit=256)
    step = Workload(rows, rows, members=2, fill=1.0)
    parts = learner_parts(read_architecture(str(tmp_path)), config, "float32", step)
    estimate = sum(parts.values()) - parts["optimiser"]  # held before the update begins
    assert estimate == pytest.approx(max(accumulate(changes)), rel=0.08)


@pytest.mark.skipif(sys.platform != "linux", reason="torch aligns to pages on Linux alone")
def test_large_blocks_are_on_pages_once_a_base_is_loaded():
    """What they leave when they are freed can be used again."""
    code = (
        "import torch; import evals.engine.base_model as b;"
        "b.load_base_model('nano', torch.device('cpu'));"
        "print({torch.empty(3 << 20, dtype=torch.uint8).data_ptr() % 4096 for _ in range(9)})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{0}"
