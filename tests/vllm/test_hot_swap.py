"""One engine, four adapters, three updates: the engine always says what the learner says."""

from dataclasses import replace
from random import Random

import pytest
import torch

from lora_evo.model import Request, Serving, VLLMOptions, before_stop
from lora_evo.model.vllm_server import llm_arguments

PROMPT = 70
"""Longer than two blocks of the cache, so that a block could be taken from an earlier version."""


def asked(tools, temperature, seed=0, count=3):
    rng = Random(seed)
    prompts = [tuple(rng.randrange(2, 400) for _ in range(PROMPT)) for _ in range(count)]
    return [
        Request(ids, name, 16, temperature, seed=97 * i + 5)
        for i, ids in enumerate(prompts)
        for name in (None, *tools.members)
    ]


def publish(both, version):
    for member in both.learner.members:
        both.served.put_adapter(member, version, both.learner.export(member))


def test_three_updates_with_hot_swap(both, tools):
    before = None
    for version in range(4):
        publish(both, version)
        assert both.served.versions == dict.fromkeys(tools.members, version)
        greedy = both.served.generate(asked(tools, 0.0))
        own = both.own.generate(asked(tools, 0.0))
        if tools.exact:
            assert [r.completion_ids for r in greedy] == [r.completion_ids for r in own]
        sampled = greedy, both.served.generate(asked(tools, 1.0))
        gaps = [tools.apart(both.learner, rollouts) for rollouts in sampled]
        mine = [r.logprobs for r in greedy if r.adapter is not None]
        if before is not None:
            assert all(one != other for one, other in zip(mine, before, strict=True))
        base = {r.logprobs for r in greedy if r.adapter is None}
        assert version == 0 or not base & set(mine)
        before = mine
        tools.shake(both.learner, version)
        for rollouts, gap in zip(sampled, gaps, strict=True):
            assert gap * tools.times < tools.apart(both.learner, rollouts), "as of an old version"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_vllm_knows_every_argument(device):
    from vllm.engine.arg_utils import EngineArgs

    serving = Serving("tiny", "bfloat16", torch.device(device), 4096, max_adapters=8, max_rank=20)
    given = llm_arguments(serving, VLLMOptions(sleep=True))
    made = EngineArgs(**given)
    assert {name: getattr(made, name) for name in given} == given


def test_a_worker_gives_back_what_torch_keeps_there(both):
    assert both.served._served.llm.collective_rpc("empty_cache") == [None]


def test_weights_that_vllm_lost_are_read_again(both, tools):
    """Sleep on a GPU can lose them; here they are overwritten."""

    def lose(model):
        for layer in model.modules():
            for part in ("lora_a_stacked", "lora_b_stacked"):
                for stack in getattr(layer, part, ()):
                    stack.zero_()

    tools.shake(both.learner, 1)
    publish(both, 40)
    engine, requests = both.served, asked(tools, 0.0, seed=2)
    before = tools.apart(both.learner, engine.generate(requests))
    engine._served.llm.apply_model(lose)
    engine._served.llm.reset_prefix_cache()
    lost = tools.apart(both.learner, engine.generate(requests))
    engine._served.llm.reset_prefix_cache()
    engine._arrived.clear()  # as waking up does
    after = tools.apart(both.learner, engine.generate(requests))
    assert max(before, after) * tools.times < lost


def test_a_sample_depends_on_its_seed_and_not_on_the_batch(both, tools):
    if not tools.exact:
        pytest.skip("sums in another order turn a draw now and then")
    publish(both, 60)
    requests = asked(tools, 1.0, seed=4, count=5)
    whole = both.served.generate(requests)
    assert both.served.generate(requests[::-1])[::-1] == whole
    for i in (0, 7, 13):
        assert both.served.generate([requests[i]]) == [whole[i]]
    other = [Request(r.prompt_ids, r.adapter, 16, 1.0, r.seed + 1) for r in requests]
    assert [r.completion_ids for r in both.served.generate(other)] != [
        r.completion_ids for r in whole
    ]


def test_stop_texts_end_a_row_where_they_do_in_hf(both, tools):
    """Also after a prompt that ends within a character, as random tokens do."""
    publish(both, 62)
    free = asked(tools, 0.0, seed=8)
    stopping = []
    for request, rollout in zip(free, both.own.generate(free), strict=True):
        text = both.own.decode(rollout.completion_ids)
        stopping.append(replace(request, stop=("never there", text[4:7] or "never there")))
    mine, theirs = both.served.generate(stopping), both.own.generate(stopping)
    assert min(len(r.completion_ids) for r in mine) < 16
    for one, request in zip(mine, stopping, strict=True):
        assert not any(stop in before_stop(one.text, request.stop) for stop in request.stop)
    if not tools.exact:
        return
    assert [r.completion_ids for r in mine] == [r.completion_ids for r in theirs]
    assert [r.finish_reason for r in mine] == [r.finish_reason for r in theirs]
    for one, other, request in zip(mine, theirs, stopping, strict=True):
        assert before_stop(one.text, request.stop) == before_stop(other.text, request.stop)


def test_many_versions_leave_nothing_behind(both, tools):
    for version in range(100, 130):
        publish(both, version)
    engine = both.served
    assert len(engine._served.llm.llm_engine.list_loras()) == len(tools.members) + 1
    home = engine._held[None].folder.parent
    assert len([p for p in home.iterdir() if p.is_dir()]) == len(tools.members) + 1
    rollouts = engine.generate(asked(tools, 0.0, seed=6, count=1))
    gap = tools.apart(both.learner, rollouts)
    tools.shake(both.learner, 6)
    assert gap * tools.times < tools.apart(both.learner, rollouts)
