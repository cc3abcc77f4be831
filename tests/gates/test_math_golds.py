"""No published answer of a math benchmark equals what any of 22 words makes of it.

The default suite tries a tenth of the 1,148.
"""

import pytest
from math_golds import accepted_with_a_word, published


@pytest.mark.slow
def test_no_published_gold_is_what_a_word_makes_of_it() -> None:
    assert accepted_with_a_word(published()) == []
