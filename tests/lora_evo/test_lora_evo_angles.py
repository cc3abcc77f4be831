"""Principal angles against dense linear algebra."""

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_evo import LoraEvoError, Slot
from lora_evo.linalg.angles import column_angles, row_angles, space_gap, spaces


def slot(seed, rank=3, inputs=12, outputs=15, scale=2.0):
    noise = torch.Generator().manual_seed(seed)
    a = torch.randn(rank, inputs, generator=noise, dtype=torch.float64)
    b = torch.randn(outputs, rank, generator=noise, dtype=torch.float64)
    return Slot(a, b, scale)


def dense_angles(first, second, rank1, rank2):
    """Angles of the column spaces of two dense matrices, from their singular vectors."""
    u1 = numpy.linalg.svd(first)[0][:, :rank1]
    u2 = numpy.linalg.svd(second)[0][:, :rank2]
    cosines = numpy.linalg.svd(u1.T @ u2, compute_uv=False)
    return numpy.sort(numpy.arccos(cosines.clip(-1, 1)))


def update(one):
    return (one.scale * one.B @ one.A).numpy()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6))
def test_equal_to_dense_angles_for_any_ranks(seed, rank1, rank2):
    one, two = slot(seed, rank1), slot(seed + 1, rank2, scale=0.3)
    columns, rows = column_angles(one, two), row_angles(one, two)
    wanted = dense_angles(update(one), update(two), rank1, rank2)
    assert columns.angles == pytest.approx(wanted, abs=1e-6)
    assert rows.angles == pytest.approx(
        dense_angles(update(one).T, update(two).T, rank1, rank2), abs=1e-6
    )
    assert columns.overlap == pytest.approx(numpy.mean(numpy.cos(wanted) ** 2), abs=1e-9)
    assert columns.grassmann == pytest.approx(numpy.linalg.norm(wanted), abs=1e-6)
    assert column_angles(two, one).angles == pytest.approx(columns.angles, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_another_gauge_opens_no_angle(seed):
    one = slot(seed)
    noise = torch.Generator().manual_seed(seed + 1)
    mix = torch.linalg.qr(torch.randn(3, 3, generator=noise, dtype=torch.float64)).Q
    gauge = mix @ torch.diag(torch.tensor([-4.0, 1.0, 0.2], dtype=torch.float64))
    two = Slot(torch.linalg.inv(gauge) @ one.A, one.B @ gauge, -0.5)
    for gap in (column_angles(one, two), row_angles(one, two)):
        assert len(gap.angles) == 3
        assert max(gap.angles) < 1e-7
        assert gap.overlap == pytest.approx(1, abs=1e-12)


def test_small_angles_keep_their_digits():
    eye = torch.eye(5, dtype=torch.float64)
    for angle in (1e-9, 1e-4, 0.7, 1.5):
        turned = eye[:, :1] * numpy.cos(angle) + eye[:, 1:2] * numpy.sin(angle)
        assert space_gap(eye[:, :1], turned).angles == pytest.approx([angle], rel=1e-6)


def test_orthogonal_and_contained_spaces():
    eye = torch.eye(6, dtype=torch.float64)
    apart = space_gap(eye[:, :2], eye[:, 2:5])
    assert apart.angles == pytest.approx([numpy.pi / 2] * 2)
    assert apart.overlap == pytest.approx(0, abs=1e-30)
    assert space_gap(eye[:, :4], eye[:, 1:3]).angles == pytest.approx([0, 0], abs=1e-15)


def test_bases_are_orthonormal_and_give_the_update_back():
    one = slot(5)
    held = spaces(one)
    eye = torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(held.columns.T @ held.columns, eye)
    torch.testing.assert_close(held.rows.T @ held.rows, eye)
    torch.testing.assert_close(
        held.columns @ torch.diag(held.values) @ held.rows.T, one.scale * one.B @ one.A
    )


def test_dead_directions_and_zero_updates_span_nothing():
    one = slot(1)
    dead = Slot(one.A, torch.cat((one.B[:, :2], 0 * one.B[:, 2:]), dim=1), 1.0)
    assert spaces(dead).values.shape == (2,)
    assert len(column_angles(one, dead).angles) == 2
    zero = Slot(one.A, 0 * one.B, 1.0)
    assert column_angles(one, zero).angles == ()
    assert column_angles(one, zero).overlap is None
    assert row_angles(zero, one).grassmann is None


def test_other_shapes_are_refused():
    with pytest.raises(LoraEvoError, match="same base model"):
        column_angles(slot(1), slot(1, outputs=9))
