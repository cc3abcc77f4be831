"""`lora-evo retention`: what it prints, how it ends, and its limits as a gate in scripts."""

import json

import pytest
from lora_evo_command import call as command

from lora_evo import cross_directory, load_adapter, mutate_directory, save_adapter


@pytest.fixture
def home(home, make_adapter):
    save_adapter(make_adapter(3, zero=True), home / "zero")
    mutate_directory("svd_structured", "p1", "c", seed=1, strength=0.25)
    cross_directory("slot_swap", ["c", "p2"], "d", seed=2)
    (home / "rows.jsonl").write_text('{"prompt": "ab"}\n')
    return home


def call(*words, code=0):
    return command("retention", *words, code=code)


def test_the_parents_come_from_the_lineage(home):
    out = call("c").stdout
    assert "c against p1: relative change 0.25, numerical rank 16 to 16 of 16" in out
    assert "optimiser moments: to be reset" in out
    table = [line.split() for line in out.splitlines() if line.startswith(("module", "all"))]
    assert table[0][:4] == ["module", "change", "cosine", "norm"]
    assert table[1][:2] == ["all", "0.25"]
    both = call("d").stdout
    assert both.count(" against ") == 2
    assert "optimiser moments: valid" in both


def test_named_parents_and_json(home):
    found = json.loads(call("c", "--parent", "p1", "--parent", "p2", "--json").stdout)
    assert list(found["parents"]) == ["p1", "p2"]
    assert (found["moments_valid_at_birth"], found["trained_since_birth"]) == (False, False)
    assert found["exceeded"] == []
    near, far = found["parents"]["p1"], found["parents"]["p2"]
    assert near["whole"]["relative_change"] == pytest.approx(0.25, rel=1e-4)
    assert near["whole"]["column_overlap"] == pytest.approx(1, abs=1e-6)
    assert len(near["modules"]) == 4
    assert near["modules"]["model.layers.0.self_attn.q_proj"]["child"]["rank"] == 4
    assert far["whole"]["cosine"] < 0.5
    assert near["probe"] is None
    unbred = json.loads(call("p2", "--parent", "zero", "--json").stdout)
    assert unbred["moments_valid_at_birth"] is None
    assert unbred["parents"]["zero"]["whole"]["relative_change"] is None
    save_adapter(load_adapter("p2"), "c", overwrite=True)
    assert "the child was trained since its birth" in call("c").stdout


def test_a_limit_holds_for_the_closest_parent(home):
    call("c", "--limit", "change=0.26")
    call("c", "--parent", "p2", "--parent", "p1", "--limit", "change=0.26")
    result = call("c", "--limit", "change=0.24", code=1)
    assert result.stderr.splitlines() == [
        "error: c: relative change 0.25 to the closest parent is above 0.24"
    ]
    found = json.loads(
        call("c", "--parent", "p2", "--limit", "change=0.3", "--json", code=1).stdout
    )
    assert len(found["exceeded"]) == 1
    assert "undefined" in call("p1", "--parent", "zero", "--limit", "change=9", code=1).stderr
    call("zero", "--parent", "p1", "--limit", "change=1")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("p1", "no lineage.json, so its parents are not known"),
        ("nowhere", "nowhere"),
        ("c --parent nowhere", "not a folder"),
        ("c --parent p1 --parent ../{home}/p1", "given twice"),
        ("c --model base", "--model needs --probes or --train"),
        ("c --probes rows.jsonl", "they need --model"),
        ("c --limit kl=0.1", "--limit kl needs --probes"),
        ("c --limit change=-1", "a number of at least 0 and a name of change, kl, recovery"),
        ("c --limit change=nan", "a number of at least 0 and a name of change, kl, recovery"),
        ("c --limit change", "expected NAME=NUMBER"),
        ("c --limit norm=1", "a name of change"),
        ("c --model p1 --probes nowhere.jsonl", "nowhere.jsonl"),
        ("c --model p1 --probes bad.jsonl", "bad.jsonl line 2: expected"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(home, words, reason):
    (home / "bad.jsonl").write_text('{"prompt": "ab"}\n{"prompt": 3}\n')
    result = call(*words.format(home=home.name).split(), code=2)
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_parent_that_is_gone_is_named(home):
    (home / "p1").rename(home / "p1-before")
    save_adapter_again = home / "p1-before" / "adapter_model.safetensors"
    save_adapter_again.write_bytes(save_adapter_again.read_bytes()[:-8])
    stderr = call("c", code=2).stderr
    assert "the parent sha256:" in stderr
    assert "truncated" in stderr


def test_with_a_model(home, make_adapter):
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    letters = {letter: number for number, letter in enumerate("abcdefgh")}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=letters, merges=[]))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner).save_pretrained(home / "base")
    config = transformers.Qwen2Config(
        vocab_size=8, hidden_size=32, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=16,
        bos_token_id=None, eos_token_id=None, pad_token_id=None, initializer_range=0.3,
    )  # fmt: skip
    transformers.Qwen2ForCausalLM(config).save_pretrained(home / "base")
    save_adapter(make_adapter(1, inputs=32, alpha=800), home / "p")
    mutate_directory("svd_structured", "p", "m", seed=1, strength=0.2)
    rows = [{"prompt": "abcdefg"}, {"prompt": "abc", "completion": "def"}]
    (home / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("m", "--model", "base", "--probes", "rows.jsonl")
    found = json.loads(call(*words, "--json").stdout)
    ((name, row),) = found["parents"].items()
    assert name == "p"
    assert (row["probe"]["prompts"], row["probe"]["tokens"]) == (2, 7)
    ratio = row["probe"]["kl_ratio"]
    assert 0 < ratio < 1
    result = call(*words, "--limit", f"kl={ratio * 1.01}")
    assert f"ratio {ratio:.4g} (2 prompts, 7 tokens)" in result.stdout
    assert "loss on completions" in result.stdout
    assert result.stderr == ""
    assert "KL ratio" in call(*words, "--limit", f"kl={ratio * 0.99}", code=1).stderr
    (home / "base" / "model.safetensors").unlink()
    result = call(*words, code=2)
    assert "cannot load the model" in result.stderr
    assert len(result.stderr.splitlines()) == 1
