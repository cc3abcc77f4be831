"""Learners of the tiny stack, samples of all members, and what an update shows and moves."""

from dataclasses import replace

import msgspec
import pytest
import torch
from probabilities import logprobs

from lora_evo.model import Rollout
from selfplay.config import LearnerConfig
from selfplay.learning.batch import TrainingSample
from selfplay.learning.learner import Learner

CONFIG = LearnerConfig(r=4, lora_alpha=8.0, learning_rate=1e-2)


def learner(tiny, model=None, more=None, **changes):
    """A learner of members that differ; more: of its own arguments; changes: of its settings."""
    config = replace(CONFIG, **changes)
    made = Learner(model or tiny.qwen(), tiny.members, config, seed=3, **(more or {}))
    tiny.shake(made.adapters)
    return made


def samples(tiny, count=14, *, longest=39, seed=0, of=None, silent=False):
    """Samples of all members with uneven lengths.

    of: a learner that gives their probabilities; silent: every fourth has no advantage.
    """
    made = []
    for i in range(count):
        ids = tiny.numbers(seed + i, 40).mul(1000).long().abs() % tiny.vocabulary
        cut, end = 3 + i % 5, 9 + (7 * i) % (longest - 8)
        prompt, completion = tuple(ids[:cut].tolist()), tuple(ids[cut:end].tolist())
        member = tiny.members[(0, 1, 1, 2, 0, 2, 1)[i % 7]]
        given = sampled_by(of, member, prompt, completion) if of else (-4.5,) * len(completion)
        text = Rollout(member, prompt, completion, given, "stop" if i % 4 else "length")
        advantage = 0.0 if silent and not i % 4 else float(tiny.numbers(seed + 500 + i, 1))
        made.append(TrainingSample(member, text, advantage, "solve" if i % 2 else "propose"))
    return made


@torch.no_grad()
def sampled_by(learner, member, prompt, completion):
    with learner.adapters.route([learner.adapters.index(member)]):
        found = logprobs(learner.model, prompt, completion, learner.scorer.output.temperature)
    return tuple(found.tolist())


def with_text(sample, **changes):
    """The sample with another rollout."""
    return replace(sample, rollout=replace(sample.rollout, **changes))


def gradients(learner, batch):
    """The gradients by member that the optimiser is shown in one update, which moves nobody, and
    its statistics."""
    seen = {}

    def shown(place, lr_factor, loss_scale):
        own = learner.adapters.parameters_of(place)
        seen[learner.members[place]] = {k: p.grad.clone() for k, p in own.items()}
        return 0.0, True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner.optimizer, "step", shown)
        stats = learner.update(batch)
    return seen, stats


def weights(learner, *members):
    """Copies of the weights of these members, or of all."""
    return {
        f"{m}/{k}": p.detach().clone()
        for m in members or learner.members
        for k, p in learner.adapters.parameters_of(learner.adapters.index(m)).items()
    }


def equal(one, other):
    """Whether tensors in the same order have the same bytes."""
    return all(map(torch.equal, one.values(), other.values()))


def close(one, other, rtol=1e-4, atol=2e-5):
    assert one.keys() == other.keys()
    for key, value in one.items():
        assert torch.allclose(value, other[key], rtol=rtol, atol=atol * float(value.abs().max()))


def alike(one, other):
    """The statistics of all members are about the same."""
    for member, stats in one.items():
        for name, value in msgspec.structs.asdict(stats).items():
            if isinstance(value, float):
                assert getattr(other[member], name) == pytest.approx(value, rel=1e-4, abs=2e-5)
