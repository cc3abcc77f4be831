"""Single files that are written whole or not at all."""

import os

from full_disk import on_full_disk

from lora_evo.files import appearing, sweep, write_text


def test_a_file_is_replaced_whole_and_folders_are_made(tmp_path):
    file = tmp_path / "deep" / "page.html"
    write_text(file, "one\n")
    write_text(file, "zwei, trois, чотири\n")
    assert file.read_bytes() == "zwei, trois, чотири\n".encode()
    assert [found.name for found in file.parent.iterdir()] == ["page.html"]
    mask = os.umask(0)
    os.umask(mask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~mask


def test_sweep_removes_what_killed_writers_left_and_nothing_else(tmp_path):
    dead = tmp_path / ".step-3.0a1b2c3d.tmp"
    dead.mkdir()
    (dead / "step-3").write_text("half")
    (tmp_path / ".hidden").write_text("mine")
    with appearing(tmp_path / "step-4") as draft:
        draft.mkdir()
        (draft / "weights").write_text("whole")
        sweep(tmp_path)
        assert draft.is_dir()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".hidden", "step-4"]
    assert (tmp_path / "step-4" / "weights").read_text() == "whole"


def test_a_full_disk_leaves_old_files_whole_lines_and_no_drafts(tmp_path):
    program = r"""
import os
from lora_evo.files import append_text, write_text

rows, page, failed = home / "rows", home / "page", 0
write_text(page, "old")
for n in range(300):
    before = rows.read_bytes() if rows.exists() else b""
    try:
        append_text(rows, f"{n:99}\n")
    except OSError as error:
        failed += 1
        assert (rows.read_bytes(), error.filename) == (before, str(rows))
        try:
            write_text(page, "new" * 10_000)
        except OSError:
            assert page.read_text() == "old"
            assert sorted(os.listdir(home)) == ["ballast", "page", "rows"]
        else:
            raise AssertionError("there was room")
        make_room()
        append_text(rows, f"{n:99}\n")
assert rows.read_text() == "".join(f"{n:99}\n" for n in range(300))
assert failed == 1
"""
    on_full_disk(tmp_path / "disk", 24, program)


def test_links_to_files_and_folders_are_followed_and_stay(tmp_path):
    for name, target in (("file", "real"), ("new", "none"), ("folder", "empty")):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "real").write_text("old")
    (tmp_path / "empty").mkdir()
    write_text(tmp_path / "file", "x")
    write_text(tmp_path / "new", "y")
    with appearing(tmp_path / "folder", overwrite=True) as draft:
        draft.mkdir()
        (draft / "weights").write_text("z")
    assert all((tmp_path / name).is_symlink() for name in ("file", "new", "folder"))
    texts = [(tmp_path / name).read_text() for name in ("real", "none", "empty/weights")]
    assert texts == ["x", "y", "z"]
