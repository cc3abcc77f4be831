"""Single files that are written whole or not at all."""

import os

import pytest

from lora_evo import LoraEvoError
from lora_evo.files.atomic import write_text_atomically


def test_a_file_is_replaced_whole_and_folders_are_made(tmp_path):
    file = tmp_path / "deep" / "page.html"
    write_text_atomically(file, "one\n")
    write_text_atomically(file, "zwei, trois, чотири\n")
    assert file.read_bytes() == "zwei, trois, чотири\n".encode()
    assert [found.name for found in file.parent.iterdir()] == ["page.html"]
    mask = os.umask(0)
    os.umask(mask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_failed_write_keeps_the_old_file_and_leaves_no_draft(tmp_path, monkeypatch):
    file = tmp_path / "page.html"
    write_text_atomically(file, "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lora_evo.files.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_text_atomically(file, "new")
    assert file.read_text() == "old"
    assert [found.name for found in tmp_path.iterdir()] == ["page.html"]


def test_folders_and_files_in_the_way_are_refused(tmp_path):
    with pytest.raises(LoraEvoError, match="is a folder"):
        write_text_atomically(tmp_path, "x")
    (tmp_path / "file").write_text("")
    with pytest.raises(LoraEvoError, match="not a folder"):
        write_text_atomically(tmp_path / "file" / "page.html", "x")
