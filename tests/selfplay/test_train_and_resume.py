"""Runs: equal for equal seeds, and equal whatever stopped them on the way."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import pytest
import yaml
from full_disk import no_file_above

from forked import start
from lora_evo import EngineStopped
from selfplay import seeds, step
from selfplay.checkpoint import newest_checkpoint
from selfplay.files import layout as run_directory
from selfplay.files.rows import ResourceRow, read_rows
from selfplay.members.population import Population
from selfplay.settings import put
from selfplay.terminal import program
from selfplay.training import train
from selfplay_command import command, refused

SECOND = ("seed=2", "steps=2", "eval.eval_every=0")
GO_ON = f"continue with `{program()} resume"


def resume(home):
    return "resume", "--workers", "1", home, "--quiet"


def once(monkeypatch, module, name, error, when=lambda *a, **k: True):
    """Let a function fail the first time that `when` holds."""
    real = getattr(module, name)

    def failing(*args, **kwargs):
        if when(*args, **kwargs):
            monkeypatch.setattr(module, name, real)
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, failing)


def test_the_whole_run_is_worth_comparing(runs, whole):
    rows = runs.outcome(whole)["metrics"]
    assert [r["step"] for r in rows] == [1, 2, 3, 4]
    assert {b["child"] for b in rows[1]["evolution"]} == {"t2", "s2"}
    assert any(m["stepped"] for r in rows for m in r["members"].values())
    assert sum(r["valid_share"] for r in rows) > 0
    members = {p.name for p in (whole / "members").iterdir()}
    assert members == {"t0", "t1", "t2", "s0", "s1", "s2"}
    assert sorted(p.name for p in (whole / "checkpoints").iterdir()) == ["step-3", "step-4"]
    assert not list(whole.rglob("*.tmp"))


def test_no_file_of_a_run_names_this_machine(whole):
    for path in whole.rglob("*"):
        if path.is_file():
            assert str(whole.parent).encode() not in path.read_bytes(), path


@pytest.fixture(scope="module")
def second(runs, tmp_path_factory):
    """A shorter run of another seed."""
    return runs.train(tmp_path_factory.mktemp("second") / "run", *SECOND)


def test_another_seed_is_another_run(runs, brief, second):
    mine, theirs = (
        [row["program"] for row in runs.rows(run / "tasks.jsonl") if row["step"] == 1]
        for run in (brief, second)
    )
    assert len(mine) == len(theirs)
    assert mine != theirs


def test_ctrl_c_then_kill_then_resume_end_in_the_same_bytes(runs, brief, tmp_path):
    home = tmp_path / "run"
    process = start(2, *runs.arguments(home))
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate()
    assert process.returncode == 130, said
    assert said == (
        f"error: interrupted; nothing is lost: continue with `{program()} resume {home}`\n"
    )

    process = start(3, *resume(home))
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL

    # What a crash may leave behind: torn lines, a half-written checkpoint, a child not recorded.
    for name in ("metrics.jsonl", "tasks.jsonl", "resources.jsonl", "league/events.jsonl"):
        with (home / name).open("a") as file:
            file.write('{"step": 3, "te')
    (home / "checkpoints" / ".step-3.abcd1234.tmp").mkdir()
    (home / "ancestors" / ".t0@1.abcd1234.tmp").mkdir()
    (home / "members" / "t7").mkdir()
    assert command(*resume(home)).exit_code == 0
    assert runs.outcome(home) == runs.outcome(brief)
    assert not list(home.rglob("*.tmp"))
    resources = runs.rows(home / "resources.jsonl")
    state = json.loads((home / "checkpoints" / "step-3" / "state.json").read_text())
    of_each = [(step, state["held_out"][:12]) for step in (1, 2, 3)]
    assert [(row["step"], row["held_out"]) for row in resources] == of_each


def test_two_trainings_in_threads_end_as_each_does_alone(runs, brief, second, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(runs.train, tmp_path / "one")
        other = pool.submit(runs.train, tmp_path / "other", *SECOND)
    assert runs.outcome(one.result()) == runs.outcome(brief)
    assert runs.outcome(other.result()) == runs.outcome(second)


def test_a_full_disk_loses_nothing(runs, second, tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    home = tmp_path / "run"
    said = "No space left on device", GO_ON

    # Before there is anything to go on with: the resume that was announced works all the same.
    for stop, words in ((full, f"({home}); free some space"), (KeyboardInterrupt(), "interrupted")):
        once(monkeypatch, seeds, "write_seeds", stop)
        code = 1 if stop is full else 130
        begin = runs.arguments(home, *SECOND) if stop is full else resume(home)
        again = f"the run has not begun: start it again with `{program()} resume {home}`"
        refused(command(*begin), words, again, code=code)
        assert (home / "config.yaml").is_file()

    # While rows are appended: half of them reach the file.
    real = step.append_rows

    def half(path, rows):
        if path.name == "tasks.jsonl" and (home / "checkpoints" / "step-1").exists():
            monkeypatch.setattr(step, "append_rows", real)
            real(path, list(rows)[:3])
            raise full
        real(path, rows)

    monkeypatch.setattr(step, "append_rows", half)
    refused(command(*resume(home)), *said, code=1)

    # While anything is synced for the first time, then a later time.
    for after in (0, 3):
        calls = iter(range(100))
        once(monkeypatch, os, "fsync", full, lambda _, c=calls, a=after: next(c) == a)
        refused(command(*resume(home)), *said, code=1)

    # While the league writes its log.
    def to_the_league(handle, _):
        return os.readlink(f"/proc/self/fd/{handle}").endswith("league/events.jsonl")

    once(monkeypatch, os, "write", full, to_the_league)
    refused(command(*resume(home)), *said, code=1)

    # While the learner's tensors are written: a real limit on the size of files.
    size = (home / "checkpoints" / "step-1" / "learner" / "s1.safetensors").stat().st_size
    with no_file_above(size - 1000):
        result = command(*resume(home))
    refused(result, "File too large", f"({home}/checkpoints/step-", GO_ON, code=1)

    assert command(*resume(home)).exit_code == 0
    assert runs.outcome(home) == runs.outcome(second)


@pytest.fixture
def copy(brief, tmp_path):
    return shutil.copytree(brief, tmp_path / "run")


def with_another_digit(path):
    """Change one digit in the middle of a text, or one byte of tensors."""
    content = bytearray(path.read_bytes())
    place = len(content) // 2
    if path.suffix != ".safetensors":
        place = next(
            i for i in (*range(place, len(content)), *range(place)) if 48 <= content[i] < 58
        )
    content[place] ^= 1
    path.write_bytes(content)


def shorten(path):
    os.truncate(path, path.stat().st_size // 2)


def leave_out(path):
    path.write_text(json.dumps({"learner/s2.safetensors": "sha256"}))


DAMAGE = [
    *((name, with_another_digit) for name in ("state.json", "learner/s1.safetensors")),
    *(("league/events.jsonl", with_another_digit), ("learner/s2.safetensors", shorten)),
    *(("state.json", Path.unlink), ("hashes.json", leave_out)),
]


@pytest.mark.parametrize(("name", "harm"), DAMAGE)
def test_the_newest_whole_checkpoint_is_found_and_damage_is_said(copy, capsys, name, harm):
    newest, older = (copy / "checkpoints" / f"step-{n}" for n in (3, 2))
    harm(newest / name)
    assert newest_checkpoint(copy).step == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(str(newest))
    assert line.endswith(f"; the run goes on from {older}")


def test_a_resume_from_an_older_checkpoint_ends_in_the_same_bytes(runs, brief, copy):
    shorten(copy / "checkpoints" / "step-3" / "learner" / "s2.safetensors")
    resumed = command(*resume(copy))
    assert resumed.exit_code == 0, resumed.output
    assert f"the run goes on from {copy}/checkpoints/step-2\n" in resumed.stderr
    assert runs.outcome(copy) == runs.outcome(brief)


@pytest.fixture
def edit(copy):
    """Change settings of the copied run in its config.yaml."""

    def edited(**changes):
        data = yaml.safe_load((copy / "config.yaml").read_text())
        for key, value in changes.items():
            put(data, key.replace("__", "."), value)
        (copy / "config.yaml").write_text(yaml.safe_dump(data))

    return edited


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 5, "learner__r": 8}, ("seed is 5, was 1", "learner.r is 8, was 2")),
        ({"students": 3}, ("students is 3, was 2",)),
        ({"steps": 2}, ("steps is 2, was 3",)),
        ({"evolution__evolve_every": 1}, ("evolution.evolve_every is 1, was 2",)),
    ],
)
def test_changed_settings_are_named_with_both_values_and_refused(copy, edit, changes, words):
    edit(**changes)
    files = content(copy)
    refused(command(*resume(copy)), "config.yaml was changed since step 3", *words)
    assert content(copy) == files


def test_what_changes_no_result_may_change_and_is_written_down(runs, copy, edit):
    edit(save_every=2, keep_checkpoints=5, steps=4, rollout__max_rows=3, eval__eval_every=5)
    resumed = command(*resume(copy))
    assert resumed.exit_code == 0, resumed.output
    rows = {
        row["setting"]: (row["step"], row["before"], row["after"])
        for row in runs.rows(copy / "changes.jsonl")
    }
    assert rows == {
        "steps": (4, 3, 4),
        "save_every": (4, 1, 2),
        "keep_checkpoints": (4, 2, 5),
        "rollout.max_rows": (4, 128, 3),
        "eval.eval_every": (4, 2, 5),
    }
    assert "from step 4: steps is 4, was 3; " in resumed.stderr
    assert "From step 4 on save_every is 2, was 1" in command("report", copy).stdout
    assert len(runs.rows(copy / "metrics.jsonl")) == 4
    again = command(*resume(copy))  # the checkpoint keeps what is now
    assert again.exit_code == 0
    assert "was" not in again.stderr
    assert len(runs.rows(copy / "changes.jsonl")) == len(rows)
    edit(steps=3)
    refused(command(*resume(copy)), "steps is 3, was 4")


def test_with_no_whole_checkpoint_resume_says_what_to_do_and_changes_nothing(copy):
    names = ("step-3", "step-2")
    for name in names:
        with_another_digit(copy / "checkpoints" / name / "learner" / "s2.safetensors")
    before = content(copy)
    words = (*names, "restore a checkpoint from a copy, or start another run")
    refused(command(*resume(copy)), *words)
    assert content(copy) == before


def test_a_run_of_an_older_format_is_refused_in_one_line(copy):
    for folder in (copy / "checkpoints").iterdir():
        path = folder / "state.json"
        path.write_text(json.dumps({"format": 4, "step": 4, "learner": []}))
        hashes = json.loads((folder / "hashes.json").read_text())
        hashes["state.json"] = run_directory.hash_file(path)
        (folder / "hashes.json").write_text(json.dumps(hashes))
    refused(command(*resume(copy)), "format 4, expected 5")


def content(home):
    return {p: p.read_bytes() for p in home.rglob("*") if p.is_file()}


def test_rows_lost_from_before_the_checkpoint_are_named(copy):
    path = copy / "tasks.jsonl"
    os.truncate(path, path.stat().st_size - 10)
    refused(command(*resume(copy)), "tasks.jsonl", "expected at least")


@pytest.mark.parametrize(
    "harm",
    [shorten, Path.unlink, pytest.param(lambda path: os.truncate(path, 0), marks=pytest.mark.slow)],
)
def test_lost_rows_of_resources_do_not_keep_a_run_from_going_on(runs, brief, copy, harm):
    harm(copy / "resources.jsonl")
    assert command(*resume(copy)).exit_code == 0
    assert runs.outcome(copy) == runs.outcome(brief)
    assert list(read_rows(copy / "resources.jsonl", ResourceRow)) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        *((b'"structure"', b'"strucTure"'), (b'"output"', b'"outqut"')),
        pytest.param(b'"input"', b'"inp5t"', marks=pytest.mark.slow),
    ],
)
def test_a_flipped_byte_in_a_task_is_named_with_file_and_line(copy, right, wrong):
    path = copy / "tasks.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if b'"status": "ok"' in line)
    lines[number] = lines[number].replace(right, wrong)
    path.write_bytes(b"".join(lines))
    refused(command(*resume(copy)), f"tasks.jsonl, line {number + 1}: ", "restore it from a copy")


@pytest.mark.parametrize("harm", [with_another_digit, shorten, Path.unlink])
def test_damaged_files_of_the_dead_are_named_and_the_run_goes_on(copy, harm):
    dead = [folder for folder in copy.glob("members/*") if folder.name not in living_in(copy)]
    folders = [*dead, *copy.glob("ancestors/*")]
    assert len(folders) >= 2 * len(dead) == 4
    for folder, name in zip(folders, cycle(("adapter_model.safetensors", "lineage.json"))):
        harm(folder / name)
    resumed = command(*resume(copy))
    assert resumed.exit_code == 0, resumed.output
    said = [f"{f} is not as it was written; restore it from a copy" for f in folders]
    assert sorted(line for line in resumed.stderr.splitlines() if "as it was" in line) == sorted(
        said
    )


def living_in(run):
    newest = max((run / "checkpoints").glob("step-*"), key=lambda path: path.name)
    return json.loads((newest / "state.json").read_text())["members"]


def test_a_run_in_progress_is_not_started_twice(copy):
    held = run_directory.lock(copy)
    refused(command(*resume(copy)), "another process")
    held.close()


def stopping(monkeypatch, *updates):
    """Let these updates of all end as where vLLM dies."""
    update, calls = Population.update, iter(range(100))

    def stopped(self, *arguments):
        if next(calls) in updates:
            raise EngineStopped("vLLM failed to sample (process 7 ended)")
        return update(self, *arguments)

    monkeypatch.setattr(Population, "update", stopped)


def test_a_run_whose_engine_dies_goes_back_to_its_last_checkpoint_by_itself(
    runs, brief, tmp_path, monkeypatch, capsys
):
    home = tmp_path / "run"
    stopping(monkeypatch, 1, 4)
    train(runs.config("save_every=2"), home)
    mine, expected = runs.outcome(home), runs.outcome(brief)
    assert [name for name in expected if mine[name] != expected[name]] == ["config.yaml"]
    said = [line for line in capsys.readouterr().err.splitlines() if "goes back" in line]
    ended = "vLLM failed to sample (process 7 ended); the run goes back to its"
    assert said == [f"{ended} checkpoint of step {step}" for step in (0, 2)]


def test_a_second_stop_without_another_checkpoint_ends_the_run(runs, tmp_path, monkeypatch):
    home = tmp_path / "run"
    stopping(monkeypatch, 1, 2)
    result = command(*runs.arguments(home, "eval.eval_every=0"))
    *_, line = result.stderr.splitlines()
    assert result.exit_code == 1
    assert "; twice since the last checkpoint" in line
    assert GO_ON in line


def test_a_resume_of_a_run_that_can_only_be_read_advises_a_copy(copy):
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*shell, mount, copy], capture_output=True, check=False).returncode:
        pytest.skip("this system makes no read-only folder for root")
    words = [sys.executable, "-m", "selfplay", "resume", copy]
    command = [*shell, f'{mount} && exec "$@"', copy, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert line == (
        f"error: Read-only file system ({copy}/run.lock); resume a copy of your own: "
        f"cp -r --no-preserve=mode {copy} COPY"
    )


def test_a_disk_that_is_full_when_the_folder_is_made_is_code_1_and_leaves_nothing(
    runs, tmp_path, monkeypatch
):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    once(monkeypatch, os, "fsync", full)
    home = tmp_path / "new" / "run"
    words = (f"cannot write to {home}: No space left on device; free some space on this disk",)
    refused(command(*runs.arguments(home)), *words, code=1)
    assert not home.parent.exists()
