"""Trials on a linear regression whose only trainable part are LoRA factors: the answer is known."""

import pytest
import torch

from lora_evo import Adapter, AdapterConfig, LoraEvoError, Slot
from lora_evo.linalg.noise import stream
from lora_evo.recovery.journal import read_journal
from lora_evo.recovery.plan import ParentPair, Treatment, TrialPlan
from lora_evo.recovery.protocol import RecoveryProtocol
from lora_evo.recovery.summary import summarise
from lora_evo.recovery.trials import fresh_adapter, make_child, run_trials

PROTOCOL = RecoveryProtocol(checks=(0, 1, 2, 4, 8, 12, 16), resamples=200)
PATH = "model.layers.0.self_attn.q_proj"
WIDTH, RANK = 12, 4


def tensor(*key: str, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_numpy(stream(3, *key).standard_normal(shape)).float()


TRUTH = tensor("up", shape=(WIDTH, RANK)) @ tensor("down", shape=(RANK, WIDTH)) / WIDTH**0.5


def parent(wobble: str) -> Adapter:
    """The truth in another gauge, and a little beside it."""
    config = AdapterConfig.new(r=RANK, lora_alpha=RANK, target_modules=["q_proj"])
    turn = torch.linalg.qr(tensor("turn", wobble, shape=(RANK, RANK)))[0]
    b = tensor("up", shape=(WIDTH, RANK)) @ turn
    a = turn.T @ tensor("down", shape=(RANK, WIDTH)) / WIDTH**0.5
    return Adapter(config, {PATH: Slot(a + 0.01 * tensor(wobble, shape=(RANK, WIDTH)), b, 1.0)})


class Regression:
    """Fits the factors to TRUTH by Adam on random inputs; an item is one output."""

    def __init__(self) -> None:
        self.calls = 0
        self.fail_at = -1

    def start(self, adapters, seed) -> None:
        self.factors = [
            [a.slots[PATH].A.clone().requires_grad_(), a.slots[PATH].B.clone().requires_grad_()]
            for a in adapters
        ]
        self.optimizers = [torch.optim.Adam(pair, lr=0.01) for pair in self.factors]
        self.seed, self.done = seed, 0

    def step(self, active) -> None:
        self.calls += 1
        if self.calls == self.fail_at:
            raise KeyboardInterrupt
        x = tensor("data", str(self.seed), str(self.done), shape=(32, WIDTH))
        self.done += 1
        for place in active:
            a, b = self.factors[place]
            loss = ((x @ (b @ a - TRUTH).T) ** 2).mean()
            self.optimizers[place].zero_grad()
            loss.backward()
            self.optimizers[place].step()

    def fitness(self, active):
        x = tensor("held out", shape=(64, WIDTH))
        with torch.no_grad():
            found = []
            for place in active:
                a, b = self.factors[place]
                error = ((x @ (b @ a - TRUTH).T) ** 2).mean(1) / ((x @ TRUTH.T) ** 2).mean(1)
                found.append((1 - error).clamp(0, 1).tolist())
            return found


def plan(*treatments: Treatment, seeds: int = 2) -> TrialPlan:
    pairs = (ParentPair("p", "q", "sibling"),)
    return TrialPlan(("p",), pairs, treatments, tuple(range(seeds)), together=4)


TRIED = (
    Treatment("svd_structured"),
    Treatment("average"),
    Treatment("xes"),
    Treatment("factor_average"),
)
PARENTS = {"p": parent("p"), "q": parent("q")}


def test_known_operators_recover_and_a_reset_does_not(tmp_path) -> None:
    path = tmp_path / "trials.jsonl"
    run_trials(path, plan(*TRIED), PARENTS, Regression(), PROTOCOL)
    summary = summarise(read_journal(path))
    rows = {row.name: row for row in summary.rows}
    assert summary.has_power
    assert rows["continued"].median == 0
    assert rows["average"].median == 0
    assert rows["svd_structured"].passed
    assert rows["reset"].censored == 1
    # Factors in other gauges do not average to the mean of the updates.
    assert rows["factor_average"].start < rows["average"].start - 0.15
    assert rows["factor_average"].censored == 1
    assert rows["svd_structured"].relative_change == pytest.approx(0.15, abs=1e-3)


def test_an_interrupted_experiment_goes_on_and_ends_with_the_same_bytes(tmp_path) -> None:
    whole, torn = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    once = Regression()
    run_trials(whole, plan(*TRIED), PARENTS, once, PROTOCOL)
    learner = Regression()
    learner.fail_at = 20
    with pytest.raises(KeyboardInterrupt):
        run_trials(torn, plan(*TRIED), PARENTS, learner, PROTOCOL)
    kept = torn.read_bytes()
    assert whole.read_bytes().startswith(kept)
    torn.write_bytes(kept + b'{"cohort":[{"trial":{"tre')
    learner = Regression()
    run_trials(torn, plan(*TRIED), PARENTS, learner, PROTOCOL)
    assert torn.read_bytes() == whole.read_bytes()
    assert learner.calls < once.calls
    again = Regression()
    run_trials(torn, plan(*TRIED), PARENTS, again, PROTOCOL)
    assert again.calls == 0
    assert torn.read_bytes() == whole.read_bytes()


def test_trials_can_be_added_and_company_does_not_matter(tmp_path) -> None:
    alone, grown = tmp_path / "alone.jsonl", tmp_path / "grown.jsonl"
    run_trials(alone, plan(*TRIED), PARENTS, Regression(), PROTOCOL)
    run_trials(grown, plan(TRIED[3], seeds=1), PARENTS, Regression(), PROTOCOL)
    run_trials(grown, plan(*TRIED), PARENTS, Regression(), PROTOCOL)
    one, two = read_journal(alone).outcomes, read_journal(grown).outcomes
    assert list(one) != list(two)
    assert one == two


def test_the_recovered_are_spared_but_the_verdict_is_the_same(tmp_path) -> None:
    full, spared = tmp_path / "full.jsonl", tmp_path / "spared.jsonl"
    run_trials(full, plan(*TRIED), PARENTS, Regression(), PROTOCOL)
    run_trials(spared, plan(*TRIED), PARENTS, Regression(), PROTOCOL, stop_early=True)
    one, two = (summarise(read_journal(path)) for path in (full, spared))
    for first, second in zip(one.rows, two.rows, strict=True):
        assert (first.name, first.median, first.censored) == (
            second.name,
            second.median,
            second.censored,
        )
    lengths = {
        o.trial.treatment.name: len(o.scores) for o in read_journal(spared).outcomes.values()
    }
    assert lengths["average"] == PROTOCOL.holds
    assert lengths["continued"] == lengths["factor_average"] == len(PROTOCOL.checks)


def test_other_terms_are_refused(tmp_path) -> None:
    path = tmp_path / "trials.jsonl"
    some = plan(TRIED[0], seeds=1)
    run_trials(path, some, PARENTS, Regression(), PROTOCOL, setting={"rate": 0.5})
    before = path.read_bytes()
    other = {**PARENTS, "p": parent("other")}
    for parents, protocol, rate in (
        (other, PROTOCOL, 0.5),
        (PARENTS, RecoveryProtocol(checks=(0, 1, 2)), 0.5),
        (PARENTS, PROTOCOL, 0.4),
    ):
        with pytest.raises(LoraEvoError, match="go on with the terms"):
            run_trials(path, some, parents, Regression(), protocol, setting={"rate": rate})
    with pytest.raises(LoraEvoError, match="no adapter was given for q"):
        run_trials(path, some, {"p": PARENTS["p"]}, Regression(), PROTOCOL)
    assert path.read_bytes() == before


def test_children_and_controls() -> None:
    trials = [t for cohort in plan(*TRIED).cohorts() for t in cohort]
    found = {t.treatment.name: make_child(t, PARENTS, {"p": 0.9, "q": 0.8})[0] for t in trials}
    assert found["continued"] is PARENTS["p"]
    reset = found["reset"].slots[PATH]
    assert not reset.B.any()
    assert reset.A.abs().max() <= WIDTH**-0.5
    twice = fresh_adapter(PARENTS["p"], 1).slots[PATH].A
    assert torch.equal(twice, fresh_adapter(PARENTS["q"], 1).slots[PATH].A)
    assert not torch.equal(twice, fresh_adapter(PARENTS["p"], 2).slots[PATH].A)
