import numpy as np
import torch

from lora_evo.model.engine import derive_seed
from lora_evo.model.hf_engine import choose, row_uniforms


def test_seeds_differ_by_every_key_its_type_and_its_place():
    keys = [(), ("a",), ("a", 1), ("a", "1"), ("a1",), (1, "a"), ("a", True), ("a", 1.0), (None,)]
    seeds = {derive_seed(run, *k) for run in (0, 1) for k in keys}
    assert len(seeds) == 2 * len(keys)
    assert all(0 <= s < 2**63 for s in seeds)


def test_seeds_are_frozen():
    assert derive_seed(1, "solve", 3, "s0") == derive_seed(1, "solve", 3, "s0")
    assert derive_seed(7, "x") == 37119275138310688


def test_uniforms_of_a_row_depend_on_its_seed_only():
    table = row_uniforms([5, 6, 5], 40)
    assert (table[0] == table[2]).all()
    assert (table[0, :10] == row_uniforms([5], 10)[0]).all()
    assert not np.intersect1d(table[0], table[1]).size
    assert ((table >= 0) & (table < 1)).all()


def test_temperature_0_takes_the_best_token_and_reports_temperature_1():
    logits = torch.tensor([[0.0, 3.0, 1.0]])
    token, logprob = choose(logits, torch.tensor([0.999], dtype=torch.float64), torch.zeros(1))
    assert token.tolist() == [1]
    assert torch.equal(logprob, torch.log_softmax(logits, -1)[:, 1])


def test_extreme_uniforms_never_pick_an_impossible_token():
    logits = torch.tensor([[-torch.inf, 0.0, 1.0, -torch.inf]]).expand(2, 4)
    uniforms = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    tokens, logprobs = choose(logits, uniforms, torch.ones(2))
    assert tokens.tolist() == [1, 2]
    assert torch.isfinite(logprobs).all()
