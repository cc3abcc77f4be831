"""Population matrices against the dense updates they stand for."""

import json
from dataclasses import replace

import pytest
import torch
from by_hand import doubled, flipped, regauged, whole
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_evo import LoraEvoError, distance, save_adapter
from lora_evo.population import diversity


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.integers(0, 99), st.integers(1, 6), st.floats(0.5, 20), st.booleans()),
        min_size=2,
        max_size=5,
    )
)
def test_equals_dense_for_any_ranks_and_scales(make_adapter, rows):
    members = [make_adapter(s, r=r, alpha=a, use_rslora=x) for s, r, a, x in rows]
    members[0] = regauged(doubled(members[0]), 3, 3.0)
    found = diversity(members)
    flat = [whole(member) for member in members]
    assert found.norms == pytest.approx([float(x.norm()) for x in flat], rel=1e-9)
    for i, one in enumerate(flat):
        for j, two in enumerate(flat):
            gap = (one - two).norm() / ((one.norm() ** 2 + two.norm() ** 2) / 2).sqrt()
            assert found.distances[i][j] == pytest.approx(float(gap), rel=1e-6, abs=1e-12)
            cosine = float(one @ two / (one.norm() * two.norm()))
            assert found.cosines[i][j] == pytest.approx(cosine, abs=1e-9)
    unit = torch.stack([x / x.norm() for x in flat])
    values = torch.linalg.svdvals(unit) ** 2 / len(flat)
    values = values[values > 1e-15]
    wanted = float(torch.exp(-(values * values.log()).sum()))
    assert found.effective_members == pytest.approx(wanted, rel=1e-6)


def test_equal_members_are_exactly_zero_apart(make_adapter):
    found = diversity([make_adapter(1, r=5) for _ in range(4)])
    assert found.distances == ((0.0,) * 4,) * 4
    assert found.cosines == ((1.0,) * 4,) * 4
    assert found.effective_members == pytest.approx(1, abs=1e-9)


def test_zero_updates(make_adapter):
    members = [make_adapter(1, zero=True), make_adapter(2, zero=True), make_adapter(3)]
    found = diversity(members)
    assert found.distances[0][:2] == (0, 0)
    assert found.distances[0][2] == pytest.approx(2**0.5)
    assert found.cosines[0] == (1, 1, 0)
    assert found.norms[0] == 0
    json.dumps(found.to_dict(), allow_nan=False)
    assert diversity(members[:2]).effective_members == pytest.approx(1)


def test_directories_give_the_same(make_adapter, tmp_path):
    members = [make_adapter(seed, r=seed) for seed in (2, 3, 4)]
    folders = [tmp_path / f"m{place}" for place in range(3)]
    for member, folder in zip(members, folders, strict=True):
        save_adapter(member, folder)
    found = diversity(folders)
    assert found.names == ("m0", "m1", "m2")
    assert found == diversity(members, found.names)


def test_populations_that_cannot_be_compared(make_adapter, tmp_path):
    one = make_adapter(1)
    with pytest.raises(LoraEvoError, match="at least two"):
        diversity([one])
    with pytest.raises(LoraEvoError, match="3 names for 2"):
        diversity([one, one], ["a", "b", "c"])
    with pytest.raises(LoraEvoError, match="2 names for 2 adapters: a, a"):
        diversity([one, one], ["a", "a"])
    bases = [make_adapter(1, base=None), one, make_adapter(1, base="other")]
    with pytest.raises(LoraEvoError, match=r"b has .* 'tiny', c has 'other'"):
        diversity(bases, ["a", "b", "c"])
    with pytest.raises(LoraEvoError, match=r"a and b sit on different modules"):
        diversity([one, make_adapter(1, layers=1)], ["a", "b"])
    with pytest.raises(LoraEvoError, match="same base model"):
        diversity([one, make_adapter(1, outputs=8)])
    save_adapter(one, tmp_path / "p")
    with pytest.raises(LoraEvoError, match="given twice"):
        diversity([tmp_path / "p", tmp_path / "x" / ".." / "p"])


def test_equal_updates_of_other_factors_are_exactly_zero_apart(make_adapter):
    for rank, inputs, outputs in ((4, 24, 32), (32, 400, 300)):
        one = make_adapter(1, r=rank, inputs=inputs, outputs=outputs, layers=1)
        assert distance(one, flipped(one)) == 0
        assert diversity([one, flipped(one)]).distances == ((0, 0), (0, 0))
        path = one.paths[0]
        near = one.slots[path].B.clone()
        near[0, 0] = torch.nextafter(near[0, 0], torch.tensor(1.0))
        slots = {**one.slots, path: replace(one.slots[path], B=near)}
        assert 0 < distance(one, replace(one, slots=slots)) < 1e-6
