"""Settings that save memory change nothing else; regularisers; memory that runs out."""

import dataclasses

import pytest
import torch
from memory_meter import MemoryMeter
from msgspec import UNSET
from probabilities import logprobs

import learners
from learners import alike, close, gradients, weights

SAVING = {
    "chunks": {"logits_chunk_tokens": 5},
    "checkpointing": {"gradient_checkpointing": True},
    "pieces": {"pieces": 1},
    "offload": {"optimizer_offload": True},
    "all": {"logits_chunk_tokens": 5, "gradient_checkpointing": True, "optimizer_offload": True}
    | {"pieces": 1, "micro_batch_tokens": 60},
}
REGULARISED = {"beta": 0.3, "entropy_coef": 0.2}


def learner(tiny, model=None, pieces=0, **changes):
    return learners.learner(tiny, model, {"pieces": pieces}, **changes)


def samples(tiny):
    return learners.samples(tiny, 8, longest=29, silent=True)


@pytest.fixture(scope="module", params=[{}, REGULARISED], ids=["plain", "regularised"])
def unsaved(request, tiny):
    """Settings, and the gradients and statistics by them where no memory is saved."""
    return request.param, *gradients(learner(tiny, **request.param), samples(tiny))


@pytest.mark.parametrize("saving", SAVING.values(), ids=SAVING)
def test_saving_memory_changes_no_gradient(tiny, unsaved, saving):
    settings, plain, stats = unsaved
    found, others = gradients(learner(tiny, **saving, **settings), samples(tiny))
    assert plain.keys() == found.keys() == set(tiny.members)
    for member in tiny.members:
        close(plain[member], found[member])
    alike(stats, others)


def test_beta_pulls_towards_the_base_and_counts_samples_without_advantage(tiny):
    batch = [dataclasses.replace(s, advantage=0.0) for s in samples(tiny)]
    one = learner(tiny, beta=0.5)
    kls = [one.update(batch) for _ in range(6)]
    for member in tiny.members:
        course = [stats[member].kl for stats in kls]
        assert course[0] > 0.1
        assert course[-1] < 0.7 * course[0]
        wanted = 0.5 * _sequence_mean_kl(tiny, batch, member)
        assert kls[0][member].loss == pytest.approx(wanted, rel=1e-4)
    still = learner(tiny)
    before = weights(still)
    assert all(stats.kl is UNSET for stats in still.update(batch).values())
    close(before, weights(still), rtol=0, atol=0)


@torch.no_grad()
def _sequence_mean_kl(tiny, batch, member):
    """The k3 estimate written out, averaged per sequence and over sequences."""
    one = learner(tiny)
    mine = [s for s in batch if s.member == member]
    total = 0.0
    for s in mine:
        policy, base = [], []
        for place, found in ((one.adapters.index(member), policy), (-1, base)):
            with one.adapters.route([place]):
                found.append(
                    logprobs(one.model, s.rollout.prompt_ids, s.rollout.completion_ids).double()
                )
        away = base[0] - policy[0]
        total += float((away.exp() - 1 - away).mean()) / len(mine)
    return total


def test_a_bfloat16_base_keeps_adapters_gradients_and_moments_in_float32(tiny):
    one = learner(tiny, tiny.qwen().to(torch.bfloat16), **SAVING["all"], beta=0.1)
    found, stats = gradients(one, samples(tiny))
    assert {p.dtype for p in one.model.model.embed_tokens.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in weights(one).values()} == {torch.float32}
    assert {g.dtype for own in found.values() for g in own.values()} == {torch.float32}
    moments = [m for s in one.optimizer.states.values() for m in s.exp_avg + s.exp_avg_sq]
    assert {m.dtype for m in moments} == {torch.float32}
    exact, _ = gradients(learner(tiny, beta=0.1), samples(tiny))
    for member in tiny.members:
        assert stats[member].stepped
        mine, wanted = (
            torch.cat([own[member][key].flatten() for key in sorted(own[member])])
            for own in (found, exact)
        )
        # How much bfloat16 rounds depends on the processor; a wrong gradient points elsewhere.
        assert torch.cosine_similarity(mine, wanted, dim=0) > 0.95


CPU = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."


def run_out(one, error, fits_not):
    """Make batches that do not fit fail, after their statistics are in."""
    loss = one.forward_pass.loss

    def limited(batch, sums):
        found = loss(batch, sums)
        if fits_not(batch):
            raise error
        return found

    one.forward_pass.loss = limited


def above_ten(batch):
    """Whether a batch has more than ten tokens, the padding too."""
    return len(batch) * max(row.length for row in batch) > 10


def test_out_of_memory_is_done_again_in_smaller_batches_with_the_same_result(tiny):
    """The error comes from the allocation that passes the limit, wherever in a pass that is; the
    tensors of that pass are free before the next."""
    options = {"gradient_checkpointing": True} | REGULARISED
    plain, one = learner(tiny, **options), learner(tiny, **options)
    wanted = plain.update(samples(tiny))
    again, starts = one.backward, []
    with MemoryMeter() as free:
        learner(tiny, **options).update(samples(tiny))
    with MemoryMeter(limit=free.peak * 2 // 3) as meter:

        def watched(*arguments):
            starts.append(meter.live)
            return again(*arguments)

        one.backward = watched
        with pytest.warns(UserWarning, match=r"out of memory in an update: .*tokens=\d+$"):
            found = one.update(samples(tiny))
    assert len(starts) == len(meter.ran_out) + 1 > 1
    assert one.micro_batch_tokens < one.config.micro_batch_tokens
    frozen = sum(p.nbytes for p in one.model.parameters() if not p.requires_grad)
    assert max(starts) <= frozen, "views of the base are all that is left"
    alike(wanted, found)
    close(weights(plain), weights(one), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError(CPU), MemoryError()]
)
def test_a_row_that_never_fits_is_refused_in_one_line_and_nothing_has_moved(tiny, error):
    one = learner(tiny)
    before = weights(one)
    run_out(one, error, above_ten)
    with (
        pytest.warns(UserWarning, match="out of memory"),
        pytest.raises(
            ValueError, match=r"a single row of \d+ tokens does not fit; set smaller rollout"
        ),
    ):
        one.update(samples(tiny))
    close(before, weights(one), rtol=0, atol=0)
    assert [s.step for s in one.optimizer.states.values()] == [0, 0, 0]
    assert all(p.grad is None for p in one.adapters.parameters_of(0).values())


def test_another_error_of_a_pass_is_not_taken_for_one_of_memory(tiny):
    one = learner(tiny)
    run_out(one, RuntimeError("shapes differ"), above_ten)
    with pytest.raises(RuntimeError, match="shapes differ"):
        one.update(samples(tiny))


def test_a_row_that_does_not_fit_alone_is_checkpointed_with_the_same_result(tiny):
    alone = {"micro_batch_tokens": 1}
    plain, one = learner(tiny, **alone), learner(tiny, **alone)
    wanted = plain.update(samples(tiny))
    longest = max(len(s.rollout.prompt_ids) + len(s.rollout.completion_ids) for s in samples(tiny))
    run_out(
        one,
        torch.OutOfMemoryError("CUDA out of memory."),
        lambda batch: batch[0].length == longest <= one.scorer.checkpoint_from_tokens,
    )
    with pytest.warns(
        UserWarning,
        match=f"repeated with gradient checkpointing for rows of {longest} tokens and more",
    ):
        found = one.update(samples(tiny))
    alike(wanted, found)
    close(weights(plain), weights(one), rtol=1e-3, atol=1e-3)
    assert one.micro_batch_tokens == 1
