"""Merges equal mergekit's own, entry by entry, where a rank holds all of the result."""

import pytest
import torch
from by_hand import build_adapter, dense

from lora_evo import merge
from lora_evo.random_streams import keyed_stream

pytest.importorskip("mergekit")

WIDTH = 24
"""The smaller side of the modules, in whose rank nothing is cut off."""


def by_mergekit(method, updates, weights, density, **more):
    """Merge dense updates as differences of a base that is 0."""
    from mergekit.merge_methods.base import TensorEntry, TensorGroup
    from mergekit.merge_methods.registry import get

    entries = [TensorEntry("base", torch.zeros_like(updates[0]), is_base=True)]
    entries += [TensorEntry(i, update) for i, update in enumerate(updates)]
    parameters = {"int8_mask": False, "lambda": 1.0, "weight": dict(enumerate(weights))}
    parameters["density"] = dict.fromkeys(range(len(updates)), density)
    return get(method).merge_group(TensorGroup(tuple(entries)), **parameters, **more)


@pytest.fixture
def parents():
    """Three adapters of other ranks and scales each."""
    return [
        build_adapter(1, r=4, alpha=8),
        build_adapter(2, r=6, alpha=3, use_rslora=True),
        build_adapter(3, r=2, alpha=5, alpha_pattern={"v_proj": 9}),
    ]


def check_equal(merged, parents, mergekits):
    for path, slot in merged.slots.items():
        expected = mergekits(path, [dense(parent.slots[path]) for parent in parents])
        error = float((dense(slot) - expected).norm() / expected.norm())
        assert error < 1e-5, path


@pytest.mark.parametrize("weights", [(1, 1, 1), (2, 0.3, 1), (1, -0.5, 0.25), (0.4, 0, 0.6)])
@pytest.mark.parametrize("density", [0.2, 0.5, 1.0])
def test_ties_of_updates_is_mergekits(parents, weights, density):
    def mergekits(path, updates):  # a negative weight may turn the elected sign in mergekit
        plain = [-u if w < 0 else u for w, u in zip(weights, updates, strict=True)]
        sizes = list(map(abs, weights))
        return by_mergekit("ties", plain, sizes, density, normalize=True, rescale=False)

    merged = merge(parents, "ties", weights=weights, density=density, rank=WIDTH)
    check_equal(merged, parents, mergekits)


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, -0.5, 0.25)])
@pytest.mark.parametrize("method", ["linear", "svd", "cat"])
def test_sums_of_updates_are_mergekits_task_arithmetic(parents, weights, method):
    def mergekits(path, updates):
        return by_mergekit("task_arithmetic", updates, weights, 1.0, normalize=False)

    more = {} if method == "cat" else {"rank": 12}
    check_equal(merge(parents, method, weights=weights, **more), parents, mergekits)


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, -0.5, 0.25)])
@pytest.mark.parametrize("method", ["dare_linear", "dare_ties"])
def test_dare_of_the_same_entries_is_mergekits_but_for_the_common_factor(
    parents, weights, method, monkeypatch
):
    """Its `rescale` keeps the sum of sizes of every update; ours is one over the density."""
    density, seed = 0.4, 3

    def mergekits(path, updates):
        numbers = iter(range(len(updates)))

        def mask(chances):
            noise = keyed_stream(seed, path, "entries", str(next(numbers)))
            points = torch.from_numpy(noise.random(tuple(chances.shape), dtype="float32"))
            return (points < density).to(chances.dtype)

        with monkeypatch.context() as patched:
            patched.setattr(torch, "bernoulli", mask)
            more = {"normalize": False, "rescale": False}
            return by_mergekit(method, updates, weights, density, **more) / density

    merged = merge(parents, method, weights=weights, density=density, seed=seed, rank=WIDTH)
    check_equal(merged, parents, mergekits)
