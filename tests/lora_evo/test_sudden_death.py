"""A child whose breeder is killed at any change of the file system, as SQLite is tested.

Whatever the moment: what loads then is the adapter from before or the whole new one, and the same
command run again leaves the files of a command that was never disturbed, and no others.
"""

import shutil
from contextlib import suppress

import pytest
from mortal import changes_until_death

from lora_evo import (
    LoraEvoError,
    Operator,
    content_hash,
    load_adapter,
    measured,
    read_lineage,
    save_adapter,
    write_child,
)
from lora_evo.files import write_text
from lora_evo.peft.directory import adapter_folders

COMMANDS = {
    "mutate": lambda home: write_child("full_gaussian", [home / "p"], home / "c", seed=1),
    "cross": lambda home: write_child("slot_swap", [home / "p", home / "q"], home / "c", seed=1),
    "deep": lambda home: write_child("full_gaussian", [home / "p"], home / "deep" / "c", seed=1),
    "overwrite": lambda home: write_child(
        "full_gaussian", [home / "q"], home / "old", seed=1, overwrite=True
    ),
    "save": lambda home: save_adapter(load_adapter(home / "p"), home / "old", overwrite=True),
    "text": lambda home: write_text(home / "page.html", "a page" * 5000),
}


@pytest.fixture(scope="module")
def start(make_adapter, tmp_path_factory):
    """A folder with two parents, and an older child with a file that is none of ours."""
    home = tmp_path_factory.mktemp("start")
    for seed, name in enumerate("pq"):
        save_adapter(make_adapter(seed, layers=1), home / name)
    write_child("average", [home / "p", home / "q"], home / "old", seed=3)
    (home / "old" / "notes.txt").write_text("mine")
    return home


@pytest.fixture(scope="module", params=COMMANDS)
def command(request, start, tmp_path_factory):
    """A command, the folder that it leaves when nothing disturbs it, and its number of changes."""
    act = COMMANDS[request.param]
    whole = tmp_path_factory.mktemp("whole") / "home"
    shutil.copytree(start, whole)
    return act, whole, changes_until_death(lambda: act(whole), whole, None)


def files(home):
    return {
        str(path.relative_to(home)): path.read_bytes() if path.is_file() else None
        for path in home.rglob("*")
    }


def adapters(home):
    """What loads in a folder: content hashes by name."""
    found = {}
    for folder in adapter_folders([home]):
        try:
            found[str(folder.relative_to(home))] = content_hash(folder)
        except LoraEvoError:
            continue
    return found


def dies_and_is_run_again(start, command, home, k):
    act, whole, made = command
    shutil.copytree(start, home)
    assert changes_until_death(lambda: act(home), home, k) is None
    assert adapters(home).items() <= adapters(start).items() | adapters(whole).items()
    with suppress(LoraEvoError):  # its output may be there already
        act(home)
    assert files(home) == files(whole), f"killed at change {k} of {made}"


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.8, 0.95, 1.0])
def test_killed_here_and_there(start, command, tmp_path, share):
    dies_and_is_run_again(start, command, tmp_path / "home", max(1, round(share * command[2])))


@pytest.mark.slow
def test_killed_at_every_change(start, command, tmp_path):
    for k in range(1, command[2] + 1):
        dies_and_is_run_again(start, command, tmp_path / f"home-{k}", k)


def test_a_draft_that_is_being_written_is_left_alone(make_adapter, tmp_path):
    """Of two who write one child at once the first to finish has it, and the other is refused."""
    save_adapter(make_adapter(1), tmp_path / "p")
    drafts = []

    def prepare(setup):
        def recipe(path, slots):
            if path == setup.paths[-1]:
                write_child("full_gaussian", [tmp_path / "p"], tmp_path / "c", seed=2)
                drafts.extend(tmp_path.glob(".c.*.tmp"))
            return measured(path, slots[0], slots[0])

        return recipe

    overtaken = Operator("overtaken", "mutation", "s", "p", prepare)
    with pytest.raises(LoraEvoError, match="exists already"):
        write_child(overtaken, [tmp_path / "p"], tmp_path / "c", seed=1)
    assert len(drafts) == 1
    assert not list(tmp_path.glob(".*"))
    assert read_lineage(tmp_path / "c").seed == 2
