"""The doctor: what it looks for first, what it measures, what it finds broken and says to do."""

import json
from collections import namedtuple
from dataclasses import replace
from types import SimpleNamespace

import pytest

from selfplay import load_preset
from selfplay.doctor import _gap
from selfplay.machine.devices import GIB
from selfplay.members import population
from selfplay_command import command
from separate_engine import SeparateEngine, open_separate

SMALL = (
    *("learner.r=2", "learner.micro_batch_tokens=1024", "sandbox.workers=1", "device=cpu"),
    *("rollout.kinds=[code_o]", "rollout.proposals=2", "rollout.num_generations=3"),
)
QUICK = (
    *("rollout.max_proposal_length=28", "rollout.max_completion_length=8"),
    *("learner.target_modules=[q_proj, v_proj]", "eval.same_tasks=1"),
)


def doctor(*words, assignments=SMALL, more=()):
    flags = [part for a in (*assignments, *more) for part in ("--set", a)]
    return command("doctor", "--base", "nano", *words, *flags)


def failed(result):
    """The lines of what failed, and what to try, of a doctor that found something."""
    assert result.exit_code == 1, (result.output, result.exception)
    lines = result.stdout.splitlines()
    return "\n".join(
        line for line in lines if line.startswith("FAILED") or line.lstrip().startswith("try: ")
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_everything_works_with_the_built_in_model_and_nothing_is_kept(here):
    result = doctor("--json", more=QUICK)
    assert result.exit_code == 0, (result.output, result.exception)
    diagnosis = json.loads(result.stdout)
    names = [check["name"] for check in diagnosis["checks"]]
    assert names == ["sandbox", "device", "memory", "disk", "learning", "probabilities"]
    assert all(check["passed"] for check in diagnosis["checks"])
    assert diagnosis["title"].startswith("nano: hf, float32, 4 members on CPU")
    phases = {"load", "match", "propose", "verify", "solve", "update", "evolve", "save"}
    assert set(diagnosis["seconds"]) == phases == set(diagnosis["memory"])
    for name in phases:
        assert diagnosis["seconds"][name] > 0, name
        assert 0.1 * GIB < diagnosis["memory"][name] < 8 * GIB, name
    assert all(diagnosis["planned"][moment] > 0 for moment in ("sampling", "learning"))
    assert not list(here.iterdir())


def test_a_sandbox_that_judges_nothing_is_named_before_the_base_loads(here, monkeypatch):
    monkeypatch.setattr(
        "code_verifier.sandbox._TEST_PROGRAMS", (("def f(x): return x", "timeout"),)
    )
    said = failed(doctor())
    assert "FAILED  sandbox: a test program ended with ok, expected timeout" in said
    assert "try: `code-verifier doctor`" in said
    assert "learning" not in said


@pytest.mark.parametrize(
    ("dtype", "kl", "most", "tokens", "passed"),
    [
        ("bfloat16", 1.6e-3, 0.1, None, True),  # as in healthy runs of a 7B
        ("float16", 1.6e-3, 0.1, None, True),
        ("bfloat16", 6e-3, 0.1, None, False),
        ("float32", 1.6e-3, 0.1, None, False),
        # 2.1 nats at a token, which a processor's bfloat16 can give, are 1.22 of k3.
        ("bfloat16", 7.3e-3, 2.1, 170, True),
        ("bfloat16", 7.3e-3, 0.1, 170, False),
        ("bfloat16", 7.3e-3, 2.1, 1700, False),
    ],
)
def test_what_16_bits_give_by_themselves_is_no_drift(dtype, kl, most, tokens, passed):
    values = {"mismatch_kl": kl, "logp_difference_max": most, "tokens": tokens}
    rows = [SimpleNamespace(members={"t0": SimpleNamespace(**values)})]
    assert _gap(rows, load_preset("nano", f"dtype={dtype}")).passed == passed


def test_too_little_disk_or_memory_is_named_with_a_setting(here, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("selfplay.doctor.shutil.disk_usage", lambda path: usage(9, 8, 1))
    assert "try: --set keep_checkpoints=1" in failed(doctor())
    monkeypatch.undo()
    monkeypatch.chdir(here)
    said = failed(doctor(more=["learner.micro_batch_tokens=90000000", "rollout.proposals=90000"]))
    assert "FAILED  memory: nano needs " in said
    assert "a lower learner.micro_batch_tokens" in said


class Drifting(SeparateEngine):
    """Says other probabilities of what it samples than it sampled with."""

    def stream(self, requests):
        for i, rollout in super().stream(requests):
            off = [logp - 0.2 for logp in rollout.logprobs]
            yield i, replace(rollout, logprobs=tuple(off)) if requests[i].temperature else rollout


def test_a_sampler_that_drifts_is_found(here, monkeypatch):
    def opened(config):
        learner, engine = open_separate(config)
        engine.__class__ = Drifting
        return learner, engine

    monkeypatch.setattr(population, "open_learner", opened)
    said = failed(doctor(more=[*QUICK, "evolution.evolve_every=0"]))
    assert "FAILED  probabilities: sampler and learner differ" in said
    assert "--set " in said


def test_a_base_that_has_nothing_to_learn_from_is_told_to_start_with_sft(here):
    never = ("evolution.evolve_every=0", "rollout.max_proposal_length=1")
    said = failed(doctor(more=[*QUICK, *never]))
    assert "FAILED  learning: 0 of 8 proposals were valid, 0 of 8 updates" in said
    assert "selfplay sft --base nano" in said
