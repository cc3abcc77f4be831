"""Functions and objects of one's own, by name."""

from fractions import Fraction

import pytest

from selfplay.errors import ConfigError
from selfplay.module_objects import load_object, name_of


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with the module `of_mine`, forgotten at the end."""
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")  # puts sys.path back
    monkeypatch.chdir(tmp_path)
    (tmp_path / "of_mine.py").write_text("class Kind: ...\nKIND = Kind()\ndef half(p): return .5")
    (tmp_path / "of_mine_broken.py").write_text("1 / 0")
    yield tmp_path
    monkeypatch.delitem(__import__("sys").modules, "of_mine", raising=False)


def test_what_a_module_of_the_working_directory_holds_is_found_by_its_name(here):
    for named in ("of_mine:KIND", "of_mine:half"):
        assert name_of(load_object(named, "reward.teacher"), "x") == named


def test_what_no_import_finds_is_named_as_handed_over():
    assert name_of(lambda p: 0.5, "mine") == ":mine"
    assert name_of(Fraction(1), "third") == ":third"
    with pytest.raises(ConfigError, match=r"kinds names mine, .* hand it over again"):
        load_object(":mine", "rollout.kinds")


@pytest.mark.parametrize(
    ("named", "line"),
    [
        ("of_mine", "a.b is 'of_mine'; expected MODULE:OBJECT"),
        ("of_mine:", "a.b is 'of_mine:'; expected MODULE:OBJECT"),
        ("of_mine:third", r"a.b: of_mine \(.*of_mine.py\) has no third"),
        ("no_such_module:f", "a.b: cannot import no_such_module: ModuleNotFoundError: No module"),
        ("of_mine_broken:f", "a.b: cannot import of_mine_broken: ZeroDivisionError: division by"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_one_line(here, named, line):
    with pytest.raises(ConfigError, match=line) as error:
        load_object(named, "a.b")
    assert "\n" not in str(error.value)
