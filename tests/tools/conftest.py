"""Labelled programs of the nano language."""

from random import Random

import pytest

from nano_labels import label, labelling_sandbox
from nano_language import LEVELS, random_program


@pytest.fixture(scope="session")
def labelling():
    with labelling_sandbox() as opened:
        yield opened


@pytest.fixture(scope="session")
def labelled(labelling):
    """Sixty programs of each level of the nano language, those that can be used."""
    rng = Random("language")
    return list(label([random_program(rng, lv) for lv in LEVELS for _ in range(60)], labelling))
