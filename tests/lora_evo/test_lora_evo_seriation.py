"""Order and map of a population, and the themes they are drawn in."""

import math
import random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_evo.pages.theme import DARK, LIGHT
from lora_evo.population.seriation import classical_map, neighbour_order


def distances_of(points):
    return [[math.dist(a, b) for b in points] for a in points]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=9, unique=True), st.randoms())
def test_an_order_names_every_member_once_whatever_the_input(places, rng):
    rng.shuffle(places)
    order = neighbour_order(distances_of([(x,) for x in places]))
    assert sorted(order) == list(range(len(places)))


def test_groups_stay_together_and_points_on_a_line_in_line():
    rng = random.Random(1)
    places = [0, 1, 3, 4, 100, 101, 103, 1000]
    rng.shuffle(places)
    order = [places[i] for i in neighbour_order(distances_of([(x,) for x in places]))]
    assert order in (sorted(places), sorted(places, reverse=True))


def test_equal_members_keep_their_order():
    assert neighbour_order([[0.0] * 3] * 3) == [0, 1, 2]
    assert neighbour_order([]) == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=2, max_size=8))
def test_points_of_a_plane_are_found_again(points):
    wanted = distances_of(points)
    drawn = classical_map(wanted)
    assert numpy.allclose(distances_of(drawn.points), wanted, atol=1e-5)
    if max(map(max, wanted)) > 1e-3:
        assert sum(drawn.shares) == pytest.approx(1)
        assert drawn.shares[0] >= drawn.shares[1]
    for axis in zip(*drawn.points, strict=True):
        assert max(axis) >= -min(axis) - 1e-6


def test_shares_of_a_regular_simplex_and_of_equals():
    simplex = [[float(i != j) for j in range(5)] for i in range(5)]
    assert classical_map(simplex).shares == pytest.approx((0.25, 0.25))
    nothing = classical_map([[0.0] * 2] * 2)
    assert nothing.points == ((0, 0), (0, 0))
    assert nothing.shares == (0, 0)


def luminance(text):
    channels = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in channels]
    return sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_numbers_can_be_read_on_every_colour_of_the_scale(theme):
    ink = luminance(theme["text"]["color"])
    for colour in theme["range"]["heatmap"]:
        pair = sorted((luminance(colour), ink))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) > 4
