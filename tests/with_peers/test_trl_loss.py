"""Our loss of a batch, and its gradient in an adapter, are those of TRL's GRPOTrainer.

TRL prepares the batch as it does with vLLM, whose texts and log-probabilities are made here, and
computes its loss after the adapter has moved. Ours is given the same texts and advantages.
"""

import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("trl")
pytestmark = pytest.mark.filterwarnings("ignore")  # what other packages warn of is theirs
ROOT = Path(__file__).parents[2]
LONGEST = 12
PLAIN = ({}, {"mask_truncated_completions": True}, {"epsilon_high": 0.5, "entropy_coef": 0.1})
KL = {"beta": 0.3}
OPTIONS = (
    *(
        {"loss_type": name, **more}
        for name in ("grpo", "bnpo", "dr_grpo", "dapo")
        for more in PLAIN
    ),
    {"importance_sampling_correction": False},
    *(
        {"importance_sampling_mode": mode, "importance_sampling_clip_min": low}
        for mode, low in (
            ("token_mask", 0.0),
            ("token_mask", 0.8),
            ("sequence_truncate", 0.5),
            ("sequence_mask", 0.0),
        )
    ),
    {**KL, "use_bias_correction_kl": False},
    {**KL, "use_bias_correction_kl": True},
    {**KL, "use_bias_correction_kl": True, "importance_sampling_mode": "sequence_mask"},
)


def texts():
    """Prompts, completions of uneven length, of which every third is cut, and their noise."""
    generator = torch.Generator().manual_seed(1)
    made = []
    for i in range(12):
        ids = torch.randint(2, 17, (20,), generator=generator).tolist()
        length = LONGEST if i % 3 == 0 else 2 + i % 7
        completion = ids[4 : 4 + length] if i % 3 == 0 else [*ids[4 : 3 + length], 1]
        noise = 0.4 * torch.randn(length, generator=generator)
        made.append((ids[: 1 + i % 3], completion, noise))
    return made


def shake(parameters, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in parameters:
            p += 0.2 * torch.randn(p.shape, generator=generator)


class Ours:
    """A learner of one member, whose matrices TRL's model is given."""

    def __init__(self, base, options):
        from selfplay.config import LearnerConfig, RolloutConfig
        from selfplay.learning.learner import Learner

        settings = {"r": 4, "lora_alpha": 8.0, "target_modules": ("q_proj", "v_proj"), **options}
        rollout = RolloutConfig(max_completion_length=LONGEST)
        self.learner = Learner(base, ["s0"], LearnerConfig(**settings), seed=3, rollout=rollout)
        self.parameters = self.learner.adapters.parameters_of(0)
        shake(self.parameters.values(), 5)

    def samples(self, advantages):
        """Samples as a sampler reports them whose probabilities differ from the learner's."""
        from lora_evo.model import Rollout
        from selfplay.learning.batch import TrainingSample

        made = []
        for (prompt, completion, noise), advantage in zip(texts(), advantages, strict=True):
            logps = (self.logps(prompt, completion) + noise).tolist()
            reason = "stop" if completion[-1] == 1 else "length"
            text = Rollout("s0", tuple(prompt), tuple(completion), tuple(logps), reason)
            made.append(TrainingSample("s0", text, advantage))
        return made

    @torch.no_grad()
    def logps(self, prompt, completion):
        from probabilities import logprobs

        with self.learner.adapters.route([0]):
            return logprobs(self.learner.model, prompt, completion, 1.0)

    def loss(self, samples):
        """The loss and its gradient after the adapter has moved."""
        from selfplay.learning.batch import batch_rows
        from selfplay.learning.statistics import StatsSum

        config = self.learner.config
        rows = batch_rows(samples, ["s0"], config, LONGEST)
        for row in rows:
            row.old = self.logps(row.prompt_ids, row.completion_ids)
        shake(self.parameters.values(), 6)
        loss = self.learner.forward_pass.loss(rows, {0: StatsSum()})
        return loss.detach(), torch.autograd.grad(loss, list(self.parameters.values()))


def theirs(samples, ours, options, folder):
    """TRL's loss and gradient of the same samples; it is given what a sampler would report."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer
    from trl_grpo import model, tokenizer

    named = {
        f"vllm_{k}" if k.startswith("importance") else k: v
        for k, v in {"importance_sampling_mode": "token_truncate", **options}.items()
    }
    named.setdefault("use_bias_correction_kl", False)
    named.setdefault("loss_type", "grpo")
    named.setdefault("vllm_importance_sampling_clip_max", 2.0)
    torch.manual_seed(0)
    trainer = GRPOTrainer(
        model(),
        reward_funcs=lambda prompts, completions, **_: [s.advantage for s in samples],
        args=GRPOConfig(
            output_dir=str(folder), per_device_train_batch_size=len(samples), use_cpu=True,
            num_generations=4, max_completion_length=LONGEST, report_to="none", num_iterations=2,
            temperature=1.0, save_strategy="no", disable_tqdm=True, bf16=False, **named,
        ),
        train_dataset=Dataset.from_list([{"prompt": "parity 1"}] * len(samples)),
        processing_class=tokenizer(),
        peft_config=LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
    )  # fmt: skip
    parameters = matched(trainer.model, ours)
    trainer.use_vllm = True
    rollouts = [s.rollout for s in samples]
    trainer._generate = lambda prompts: (
        [list(r.prompt_ids) for r in rollouts],
        [list(r.completion_ids) for r in rollouts],
        None,
        [r.text for r in rollouts],
        [list(r.logprobs) for r in rollouts],
        {},
        None,
        [[] for _ in rollouts],
    )
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    inputs = trainer._generate_and_score_completions([{"prompt": "parity 1"}] * len(samples))
    shake(parameters, 6)
    inputs["advantages"] = torch.tensor([s.advantage for s in samples])
    loss = trainer._compute_loss(trainer.model, inputs)
    return loss.detach(), torch.autograd.grad(loss, parameters)


def matched(model, ours):
    """The parameters of PEFT's adapter in the order of ours, with the values of ours."""
    by_name = dict(model.named_parameters())
    found = []
    for name, value in ours.parameters.items():
        ending = f"{name}.default.weight"
        (parameter,) = [p for key, p in by_name.items() if key.endswith(ending)]
        with torch.no_grad():
            parameter.copy_(value)
        found.append(parameter)
    return found


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: " ".join(map(str, o.values())))
def test_the_loss_is_that_of_trl(options, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples" / "code_verifier"), *sys.path])
    from trl_grpo import model

    torch.manual_seed(0)
    ours = Ours(model(), options)
    generator = torch.Generator().manual_seed(2)
    samples = ours.samples(torch.randn(12, generator=generator).tolist())
    wanted, gradient = theirs(samples, ours, options, tmp_path)
    loss, found = ours.loss(samples)
    assert loss == pytest.approx(wanted.item(), rel=1e-5)
    for one, other in zip(found, gradient, strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-5 * float(other.abs().max()))
