"""Runs on a base in bitsandbytes' 4 bits: the same bytes again; members name their base."""

from importlib.util import find_spec

import pytest
import torch
from json_lines import write_rows
from transformers import AutoModelForCausalLM

from lora_evo import read_lineage
from lora_evo.model import load_base_model, open_engine
from selfplay import load_preset
from selfplay.errors import ConfigError
from selfplay.machine import preset_choice
from selfplay.machine.architecture import read_architecture
from selfplay.machine.devices import GIB, Machine, gpu
from selfplay.machine.plan import make_plan
from selfplay.sft import fine_tune
from selfplay.training import resume, train
from selfplay_command import command, refused, train_until, worked

BITS = ("load_in_4bit=true", "learner.gradient_checkpointing=true")
NF4 = "4-bit nf4, double quantization, compute in bfloat16"
with_bits = pytest.mark.skipif(
    not find_spec("bitsandbytes"), reason="bitsandbytes is not installed: `make test-4bit`"
)


@pytest.fixture(scope="module")
def run(runs, tmp_path_factory):
    """A run of four steps with an evolution and measurements."""
    return runs.train(tmp_path_factory.mktemp("bits") / "run", *BITS, "learner.learning_rate=0.01")


@with_bits
def test_a_run_learns_evolves_and_names_its_base(run, runs):
    measured = runs.rows(run / "metrics.jsonl")
    assert any(m.get("stepped") for row in measured for m in row["members"].values())
    (births,) = [row["evolution"] for row in measured if row.get("evolution")]
    assert births
    for folder in [*(run / "members").iterdir(), *(run / "ancestors").iterdir()]:
        assert read_lineage(folder).quantization == NF4
        assert NF4 in (folder / "README.md").read_text()


@with_bits
def test_an_interrupted_run_resumes_to_the_same_bytes(run, runs, tmp_path):
    config = runs.config(*BITS, "learner.learning_rate=0.01")
    train_until(3, config, tmp_path / "run", phase="update")
    resume(tmp_path / "run")
    assert runs.outcome(tmp_path / "run") == runs.outcome(run)


@with_bits
def test_a_merge_is_into_what_the_4_bits_stand_for_and_says_so(run, tmp_path):
    said = worked("export", run, "s0", "--out", tmp_path / "one", "--merge")
    assert f"in {NF4}, dequantised to float32, as the member was trained" in said
    worked("export", run, "s0", "--out", tmp_path / "two", "--merge")
    one, two = (
        {p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two")
    )
    assert one == two
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "one", dtype=torch.float32)
    assert not hasattr(merged.config, "quantization_config")
    opened = open_engine("hf", "nano", {"s0": run / "members" / "s0"}, load_in_4bit=True)
    ids = torch.arange(10, 40)[None]
    with torch.no_grad(), opened.adapters.route([0]):
        ours, theirs = opened.adapters.model(ids).logits, merged(ids).logits
    assert float((ours - theirs).abs().mean()) < 0.02 * float(ours.abs().mean())
    plain = load_base_model("nano", torch.device("cpu"), "float32").model(ids).logits.detach()
    assert float((ours - plain).abs().mean()) > 0.05 * float(ours.abs().mean())


@with_bits
def test_a_start_is_of_the_base_that_it_was_trained_on(runs, tmp_path):
    rows = [{"snippet": f"def f(x):\n    return x + {n}", "input": "1"} for n in range(6)]
    data = write_rows(tmp_path / "tasks.jsonl", rows)
    config = runs.config("steps=2", "load_in_4bit=true")
    few = {"batch_size": 2, "learning_rate": 1e-3, "held_out": 1}
    fine_tune(config, data, tmp_path / "start", lambda text: None, **few)
    assert read_lineage(tmp_path / "start").quantization == NF4
    start = f"warm_start={tmp_path / 'start'}"
    train(runs.config("steps=1", "load_in_4bit=true", start), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"in 4-bit nf4, .* load_in_4bit gives plain weights"):
        train(runs.config("steps=1", start), tmp_path / "other")


def test_vllm_with_4_bits_is_refused_in_one_line():
    for words in (("train", "--preset", "7b-24gb"), ("plan", "7b-24gb")):
        more = ("--set", "engine=vllm")
        refused(command(*words, *more), "which does not load bitsandbytes' 4 bits", "--engine hf")


@with_bits
def test_a_plan_counts_what_the_loaded_base_takes():
    base = load_base_model("nano", torch.device("cpu"), "float32", load_in_4bit=True)
    held = 0
    for parameter in base.model.parameters():
        held += parameter.nbytes
        if state := getattr(parameter, "quant_state", None):
            held += sum(t.nbytes for t in (state.absmax, state.state2.absmax))
    plan = make_plan(
        load_preset("nano", "load_in_4bit=true"), read_architecture("nano"), gpu("H100")
    )
    assert plan.memory["base (4-bit)"] == pytest.approx(held, rel=0.01)


def test_presets_for_24_gib_fit_such_cards():
    for preset, card in (("7b-24gb", "RTX 4090"), ("7b-24gb", "L4"), ("7b-24gb-azr", "L4")):
        assert f" fits {gpu(card).name}" in worked("plan", preset, "--gpu", card)
    wide = worked("plan", "7b-24gb", "--gpu", "4090", "--set", "load_in_4bit=false")
    assert "does not fit RTX4090" in wide


@pytest.mark.parametrize(("gib", "preset"), [(79.1, "7b-4t4s"), (39.4, "7b-24gb"), (23, "7b-24gb")])
def test_a_large_base_gets_what_the_card_holds(monkeypatch, gib, preset):
    card = Machine("a card", gib * GIB, is_gpu=True)
    monkeypatch.setattr(preset_choice, "this_machine", lambda device, threads: card)
    shape = read_architecture("Qwen/Qwen2.5-Coder-7B")
    assert preset_choice.preset_for(shape) == preset
