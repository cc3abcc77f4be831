"""A base of one's own: what is chosen for it, how that is said, and a run on it."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from transformers import Phi3Config

from lora_evo.model import resolve
from selfplay import config_for
from selfplay_command import command, refused

CHAT = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}[assistant] "
NO_USER = "{% for m in messages %}[{{ m.role }}]{% endfor %}"
"""Loses what the user says."""


@pytest.fixture
def own(tmp_path):
    """Makes a folder with a model of nano's shape and weights, and the context and template asked
    for."""

    def make(context=8192, chat=None):
        folder = tmp_path / "owner-model"
        shutil.copytree(resolve("nano"), folder)
        path = folder / "config.json"
        config = json.loads(path.read_text()) | {"max_position_embeddings": context}
        path.write_text(json.dumps(config))
        if chat:
            (folder / "chat_template.jinja").write_text(chat)
        return folder

    return make


@pytest.mark.parametrize(
    ("chat", "template", "why"),
    [
        (None, "azr", "its tokenizer has no chat template"),
        (CHAT, "azr-chat", "its tokenizer has a chat template"),
        (NO_USER, "azr", "leaves the user's text out"),
    ],
)
def test_the_template_follows_the_tokenizer_and_the_reason_is_said(own, chat, template, why):
    config, chosen = config_for(str(own(chat=chat)))
    assert config.template == template
    assert f"template {template}: " in chosen
    assert why in chosen


def test_a_small_model_gets_the_small_sizes_and_what_is_given_wins(own):
    folder = str(own())
    config, chosen = config_for(folder)
    assert (config.base, config.learner.r, config.rollout.max_prompt_length) == (folder, 16, 1024)
    assert "preset smol: teachers 2, students 2, rank 16, engine hf, float32" in chosen
    assert "--preset NAME" in chosen
    assert "context 8,192 tokens" in chosen
    config, chosen = config_for(folder, "learner.r=3", preset="7b-1t1s", teachers=3, students=None)
    assert (config.teachers, config.students, config.learner.r) == (3, 1, 3)
    assert (config.base, config.template) == (folder, "azr")
    assert config.rollout.max_completion_length == 3244  # of 4,096
    assert "preset 7b-1t1s: teachers 3, students 1, rank 3," in chosen


@pytest.mark.parametrize("context", [300, 1024])
def test_all_lengths_fit_the_context_together(own, context):
    config, chosen = config_for(str(own(context)))
    assert context - 3 < config.longest_sample <= context
    assert f"context {context:,} tokens" in chosen
    assert f"attempts to {config.rollout.max_completion_length}" in chosen


def test_adapters_go_on_the_linear_layers_that_there_are(own):
    folder = own()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
    Phi3Config(**sizes, num_hidden_layers=2, num_key_value_heads=2).save_pretrained(folder)
    config, chosen = config_for(str(folder))
    assert config.learner.target_modules == ("o_proj", "qkv_proj", "gate_up_proj", "down_proj")
    assert "adapters on o_proj, qkv_proj, gate_up_proj, down_proj" in chosen


def test_train_takes_a_folder_as_it_is(own, tmp_path):
    run = tmp_path / "run"
    sizes = ("proposals=1", "num_generations=2", "max_proposal_length=8", "max_completion_length=8")
    small = [f"rollout.{size}" for size in sizes] + ["rollout.kinds=[code_o]"]
    small += ["eval.eval_every=0", "evolution.evolve_every=0", "threads=1"]
    words = ["train", "--base", str(own(chat=CHAT)), "--steps", "1", "--out", str(run)]
    done = command(*words, *(w for s in small for w in ("--set", s)))
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("base: owner-model, 1,0")
    written = yaml.safe_load((run / "config.yaml").read_text())
    assert (written["template"], written["base"]) == ("azr-chat", str(tmp_path / "owner-model"))
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 1


@pytest.mark.slow
def test_the_tutorial_runs_down_to_its_part_on_gpus(own, tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "tutorial-own-model.md"
    small, _, _ = page.read_text().partition("\n## On a GPU\n")
    blocks = re.findall(r"```sh\n(.*?)```", small, re.DOTALL)
    lines = "".join(blocks).splitlines()
    assert len(lines) == 6
    own(chat=CHAT).rename(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    shorter = {"train": "--steps 1 --workers 1 --set eval.tasks=4", "sft": "--steps 2"}
    for line in lines:
        _, name, *words = shlex.split(line)
        words = [w.replace("seed_tasks=64", "seed_tasks=2") for w in words]
        done = command(name, *words, *shlex.split(shorter.get(name, "")))
        assert done.exit_code == 0, (line, done.output)
    assert "<svg" in (tmp_path / "report.html").read_text()


def test_without_the_hub_an_error_says_how_to_get_a_copy(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    done = command("train", "--base", "owner/some-model", "--out", tmp_path / "run")
    refused(done, "`hf download owner/some-model --local-dir FOLDER`")
    assert not (tmp_path / "run").exists()
