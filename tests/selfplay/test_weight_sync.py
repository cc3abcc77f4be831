"""Members in an engine of their own: the same run, byte by byte, and a check that can fail."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from selfplay import load_preset
from selfplay.errors import SelfplayError
from selfplay.members import population
from selfplay.members.weight_sync import TOLERANCE, send
from selfplay.training import new_run
from separate_engine import SeparateEngine, open_separate

SMALL = (
    *("steps=2", "evolution.evolve_every=1", "rollout.kinds=[code_o]", "eval.tasks=2"),
    "pieces=0",  # such an engine makes up its own batches
)


@pytest.fixture
def separate(monkeypatch):
    opened = []

    def remember(config):
        opened.append(open_separate(config))
        return opened[-1]

    monkeypatch.setattr(population, "open_learner", remember)
    return opened


def test_a_run_with_an_engine_of_its_own_is_the_same_run(runs, separate, tmp_path, monkeypatch):
    settings = (*SMALL, "eval.eval_every=0")
    mine = runs.outcome(runs.train(tmp_path / "mine", *settings))
    ((learner, engine),) = separate
    assert len(engine.put) > 4, "members change and children are born"
    assert all(name.endswith("@v0") for name in engine.put[:4])
    assert set(engine.versions) == set(learner.members)
    monkeypatch.undo()
    assert runs.outcome(runs.train(tmp_path / "shared", *settings)) == mine


@torch.no_grad()
def test_members_that_changed_are_put_again_and_other_weights_are_found_out(
    runs, separate, tmp_path
):
    path = "model.layers.0.self_attn.q_proj"
    with new_run(runs.config(*SMALL, "eval.eval_every=0"), tmp_path / "run") as run:
        ((learner, engine),) = separate
        assert engine.put == ["t0@v0", "t1@v0", "s0@v0", "s1@v0"]
        learner.adapters.layers[path].lora_B[2].add_(0.1)
        run.population.sync(7)
        run.population.sync(8)
        assert engine.put[4:] == ["s0@v7"]
        for factor in (learner.adapters.layers[path].lora_A, learner.adapters.layers[path].lora_B):
            factor[3].fill_(1e30)  # logits that are not finite, in both
        run.population.sync(8)
        assert engine.put[5:] == ["s1@v8"]
        engine.adapters.layers[path].lora_B[1].add_(0.5)
        with pytest.raises(SelfplayError, match="t1 in the engine is not the learner's: the log-"):
            run.population.sync(9)


class Off(SeparateEngine):
    """Says of some of the tokens that it samples that they are less likely than they are."""

    most = 0

    def stream(self, requests):
        for i, rollout in super().stream(requests):
            by = self.nats if i < self.most else 0.0
            yield i, replace(rollout, logprobs=tuple(x - by for x in rollout.logprobs))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tokens_may_be_off_by_what_rounding_explains(dtype):
    """Of members far from the base. In bfloat16 one token alone, the first of the base here, may be
    more than half a nat off."""
    config = load_preset("nano", f"dtype={dtype}", "device=cpu", "threads=0", "learner.r=2")
    learner, engine = open_separate(config)
    draws = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for layer in learner.adapters.layers.values():
            for up in layer.lora_B:
                up.add_(0.05 * torch.randn(up.shape, generator=draws))
    sync, limit = partial(send, learner, engine, {}, dtype), TOLERANCE[dtype]
    sync(1)
    engine.__class__ = Off
    for most, nats, passes in (
        *((10**6, limit / 2, True), (10**6, 2 * limit, False)),
        (1, 0.6, dtype == "bfloat16"),
    ):
        engine.nats, engine.most = nats, most
        if passes:
            sync(2)
        else:
            with pytest.raises(SelfplayError, match="the base in the engine is not the learner's"):
                sync(2)
