"""Tests that need vLLM: run by `make test-vllm`, skipped with a reason where there is none.

They run on a GPU where torch finds one: in bfloat16, for vLLM serves adapters there in 16 bits
alone, so what is equal on a CPU is near. POPULAB_DTYPE=bfloat16 has them judge so on a CPU, too.
"""

import importlib.util
import os
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import torch
from probabilities import logprobs

from lora_evo.model import HFEngine, Rollout, load_base_model
from selfplay.config import read_config
from selfplay.learning.batch import TrainingSample
from selfplay.learning.learner import Learner
from selfplay.settings import assignment, put, read_preset

REASON = "vLLM is not installed here; `make test-vllm` makes an environment that has it"
MEMBERS = ("t0", "t1", "s0", "s1")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = os.environ.get("POPULAB_DTYPE") or ("float32" if DEVICE == "cpu" else "bfloat16")
EXACT = (DEVICE, DTYPE) == ("cpu", "float32")
"""Whether sums are taken in one order, so that equal requests give equal bytes."""
TIMES = 1000.0 if DTYPE == "float32" else 3.0
"""How many times as far the learner is with other weights from what the sampler says: rounding is
not the same on every processor, and single tokens of members far from the base differ by nats in
bfloat16. Between the engine hf and the learner the mean differs by 1e-6 nats in float32, 0.02 to
0.035 in bfloat16; with other weights by 0.3 and more in both, 200,000 and 9 times as much."""
HERE = (f"device={DEVICE}", f"dtype={DTYPE}", "vllm.gpu_memory_utilization=0.15")
if DEVICE == "cuda":  # a function that looks at the model goes to vLLM's own process
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    if importlib.util.find_spec("vllm") is None:
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=REASON))
    for item in items:  # torch's own compiler uses what torch deprecates
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"))


@pytest.fixture(scope="session")
def opened():
    """A learner on nano, its own engine, and the vLLM engine of the same members."""
    from lora_evo.model import linear_shapes
    from selfplay.members.population import open_vllm

    data = read_preset("nano")
    for text in ("engine=vllm", "rollout.max_rows=64", "learner.r=4", *HERE):
        put(data, *assignment(text))
    settings = read_config(data)
    torch.set_num_threads(1)
    base = load_base_model("nano", torch.device(DEVICE), DTYPE)
    shapes = linear_shapes(base.model)
    learner = Learner(base.model, MEMBERS, settings.learner, seed=1)
    own = HFEngine(learner.adapters, base.tokenizer, max_rows=64)
    served = open_vllm(settings, base, shapes, len(MEMBERS))
    states = [learner.member_state(place) for place in range(len(MEMBERS))]
    yield SimpleNamespace(learner=learner, own=own, served=served), states
    served.close()


@pytest.fixture
def both(opened):
    """One engine for all tests; every test begins with the same members, equal to the base."""
    both, states = opened
    for place, state in enumerate(states):
        both.learner.load_member(place, state)
    return both


def shake(learner, seed):
    """An update that moves every member far, each in its own direction.

    In 16 bits noise does: so large an update makes members sure of a token, old ones, too.
    """
    if DTYPE != "float32":
        draws = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer in learner.adapters.layers.values():
                for up in layer.lora_B:
                    up.add_((0.1 * torch.randn(up.shape, generator=draws)).to(up))
        return
    rng = Random(seed)
    samples = [
        TrainingSample(
            member,
            Rollout(
                member,
                tuple(rng.randrange(2, 400) for _ in range(12)),
                tuple(rng.randrange(2, 400) for _ in range(10)),
                (-6.0,) * 10,
                "stop",
            ),
            rng.choice((-1.0, 1.0)),
        )
        for member in learner.members
        for _ in range(3)
    ]
    for _ in range(4):
        learner.update(samples, lr_factor=20.0)


@torch.no_grad()
def apart(learner, rollouts):
    """How far log-probabilities of rollouts are from the learner's, in the mean: see TIMES."""
    found = []
    for r in rollouts:
        with learner.adapters.route([learner.adapters.index(r.adapter)]):
            own = logprobs(learner.model, r.prompt_ids, r.completion_ids)
        found.append((own.cpu() - torch.tensor(r.logprobs)).abs())
    return float(torch.cat(found).mean())


@pytest.fixture(scope="session")
def tools():
    return SimpleNamespace(
        shake=shake,
        members=MEMBERS,
        here=HERE,
        dtype=DTYPE,
        exact=EXACT,
        times=TIMES,
        apart=apart,
    )
