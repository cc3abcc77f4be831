"""Learners that share the shards of an update: the same bytes for any number of them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from threading import Barrier

import torch

import learners
from selfplay.learning.exchange import Exchange, open_group, open_store

CONFIG = replace(learners.CONFIG, micro_batch_tokens=20)


def samples(tiny):
    return learners.samples(tiny, 16, longest=19)


def learner(tiny, config=CONFIG, exchange=None):
    more = {"pieces": 8, "exchange": exchange}
    return learners.learner(tiny, None, more, **asdict(config))


def together(count, work):
    """Call work(exchange) in a thread for each of so many learners; return what they return.

    All have met before any works, and none leaves before all are done: on a busy machine, one may
    be through before another has come.
    """
    store, place = open_store("127.0.0.1")
    met = Barrier(count, timeout=300)
    exchanges = []

    def one(rank):
        exchange = Exchange(rank, count, open_group("127.0.0.1", place, rank, count))
        exchanges.append(exchange)
        met.wait()
        return work(exchange)

    with ThreadPoolExecutor(count) as threads:
        outcomes = list(threads.map(one, range(count)))
    del store
    return outcomes


def test_any_number_of_learners_takes_the_same_steps(tiny):
    config = replace(CONFIG, num_iterations=2)
    alone = learner(tiny, config)
    expected = [alone.update(samples(tiny)) for _ in range(2)]
    weights = [alone.member_state(place) for place in range(3)]

    def shared(exchange):
        mine = learner(tiny, config, exchange)
        return mine, [mine.update(samples(tiny)) for _ in range(2)]

    for mine, found in together(3, shared):
        assert found == expected
        for place in range(3):
            for key, tensor in mine.member_state(place).tensors.items():
                assert tensor.equal(weights[place].tensors[key]), (place, key)


def test_a_member_whose_gradient_is_not_finite_is_left_as_it_was_everywhere(tiny):
    def shared(exchange):
        mine = learner(tiny, exchange=exchange)
        before = {key: tensor.clone() for key, tensor in mine.optimizer.tensors(0).items()}
        if exchange.rank == 1:
            mine.forward_pass.loss = lambda rows, sums: (
                torch.tensor(float("nan"))
                * sum(p.sum() for p in mine.adapters.parameters_of(0).values())
            )
        stats = mine.update([s for s in samples(tiny) if s.member == tiny.members[0]])
        after = mine.optimizer.tensors(0)
        assert all(after[key].equal(before[key]) for key in before)
        return stats

    for stats in together(2, shared):
        assert not stats[tiny.members[0]].stepped
        assert stats[tiny.members[0]].skipped.startswith("the norm of its gradient is")
