"""Behaviour on probe prompts, with merged dense weights as the judge."""

import json

import pytest
import torch
import transformers
from json_lines import write_rows
from letter_model import letter_tokenizer, save_letter_model
from lora_evo_command import call

from lora_evo import Adapter, AdapterConfig, LoraEvoError, Slot, load_adapter, mutate, save_adapter
from lora_evo.model import TokenPair, linear_shapes, load_base_model
from lora_evo.probe import probe
from lora_evo.retention_rows import PromptRow, encode_row, read_rows

LETTERS = "Ġabcdefghijklmnopqrstuvwxyz"
TARGETS = ["q_proj", "v_proj", "down_proj"]
ROWS = [
    PromptRow(1, "the cat sat on", " the mat"),
    PromptRow(2, "dog", " ran to the mat and slept"),
    PromptRow(3, "a", "b"),
]
PLAIN = [PromptRow(row.line, row.prompt) for row in ROWS]


def tokenizer_of_letters(start=False):
    return letter_tokenizer(LETTERS, ("<s>", "</s>"), start)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a random model (base), two adapters of unequal rank (p, q) and a child (c)."""
    folder = tmp_path_factory.mktemp("probe")
    model = save_letter_model(folder / "base", tokenizer_of_letters())
    for name, rank, seed in (("p", 3, 1), ("q", 2, 2)):
        save_adapter(adapter_on(model, rank, seed, TARGETS), folder / name)
    child = mutate(load_adapter(folder / "p"), "svd_structured", seed=1, strength=0.4)
    save_adapter(child, folder / "c")
    return folder


@pytest.fixture(scope="module")
def base(home):
    return load_base_model(str(home / "base"), torch.device("cpu"), "float32")


@pytest.fixture
def ask(home, base):
    """Probe a child of the home, by its name, against parents by theirs."""

    def probed(rows, child="c", parents=("p",)):
        adapters = {name: load_adapter(home / name) for name in parents}
        return probe(base, adapters, load_adapter(home / child), rows)

    return probed


def adapter_on(model, rank, seed, targets):
    config = AdapterConfig.new(
        r=rank, lora_alpha=2, target_modules=targets, use_rslora=True, base_model_name_or_path="b"
    )
    noise = torch.Generator().manual_seed(seed)
    slots = {}
    for path, (width, depth) in linear_shapes(model).items():
        if config.adapts(path):
            a = torch.randn(rank, width, generator=noise) / width**0.5
            b = 0.3 * torch.randn(depth, rank, generator=noise)
            slots[path] = Slot(a, b, config.scale(path))
    return Adapter(config, slots)


def load(home):
    return transformers.AutoModelForCausalLM.from_pretrained(home / "base", dtype=torch.float32)


def letters(text):
    return [LETTERS.index(letter) + 2 for letter in text.replace(" ", "Ġ")]


@torch.no_grad()
def distributions(model, row, skip=4):
    """Log-probabilities [positions, vocabulary] of one row, alone and unpadded, by the model."""
    prompt, answer = letters(row.prompt), letters(row.completion or "")
    logits = model.eval()(torch.tensor([prompt + answer])).logits[0].double()
    if answer:
        part = slice(len(prompt) - 1, len(prompt) + len(answer) - 1)
    else:
        part = slice(min(skip, len(prompt)) - 1, None)
    return logits[part].log_softmax(-1)


def kl(p, q):
    return (p.exp() * (p - q)).sum(-1)


def expected(models, rows):
    base, parent, child = ([distributions(m, row) for row in rows] for m in models)
    kls = torch.cat([kl(p, c) for p, c in zip(parent, child, strict=True)])
    scales = torch.cat([kl(b, p) for b, p in zip(base, parent, strict=True)])
    return kls, scales


def check(found, kls, scales):
    assert found.tokens == len(kls)
    assert found.kl == pytest.approx(float(kls.mean()), rel=1e-4)
    assert found.kl_scale == pytest.approx(float(scales.mean()), rel=1e-4)
    assert found.kl_ratio == pytest.approx(float(kls.mean() / scales.mean()), rel=1e-4)


def merged_by_hand(home, name):
    model = load(home)
    with torch.no_grad():
        for path, slot in load_adapter(home / name).slots.items():
            model.get_submodule(path).weight += slot.scale * slot.B @ slot.A
    return model


@pytest.mark.parametrize(("rows", "tokens"), [(ROWS, 34), (PLAIN, 13)])
def test_every_parent_is_compared_as_by_merged_weights(home, ask, rows, tokens):
    both = ask(rows, parents=("p", "q"))
    for name in ("p", "q"):
        models = [load(home), merged_by_hand(home, name), merged_by_hand(home, "c")]
        check(both[name], *expected(models, rows))
        assert both[name].tokens == tokens
    assert both["q"].kl > both["p"].kl > 1e-3


def test_an_equal_child_and_a_parent_that_does_nothing(home, base, ask):
    found = ask(ROWS, child="p")["p"]
    assert (found.kl, found.kl_ratio) == (0, 0)
    assert found.kl_scale > 1e-3
    parent = load_adapter(home / "p")
    idle = {path: Slot(s.A, torch.zeros_like(s.B), s.scale) for path, s in parent.slots.items()}
    found = probe(base, {"idle": Adapter(parent.config, idle)}, parent, ROWS)["idle"]
    assert (found.kl_scale, found.kl_ratio) == (0, None)
    assert found.kl > 1e-3


def test_the_model_is_left_as_it_was(home, base):
    p = load_adapter(home / "p")
    ids = torch.tensor([[1, 4, 5]])
    before, layers = base.model(ids).logits, [type(m) for m in base.model.modules()]
    seen = []
    probe(base, {"p": p}, load_adapter(home / "c"), ROWS * 3,
          progress=lambda done, total: seen.append((done, total)))  # fmt: skip
    assert torch.equal(base.model(ids).logits, before)
    assert [type(m) for m in base.model.modules()] == layers
    assert seen == [(8, 9), (9, 9)]


def test_adapters_of_another_model_and_values_that_overflow_are_refused(home, base, make_adapter):
    p, wide = load_adapter(home / "p"), make_adapter(1)
    with pytest.raises(LoraEvoError, match="map 24 to 32 features, base has 16 to"):
        probe(base, {"p": wide}, wide, ROWS)
    with pytest.raises(LoraEvoError, match="different modules"):
        probe(base, {"p": p}, wide, ROWS)
    huge = {path: Slot(s.A * 1e30, s.B * 1e30, s.scale) for path, s in p.slots.items()}
    with pytest.raises(LoraEvoError, match=r"line 2: .* not finite"):
        probe(base, {"p": p}, Adapter(p.config, huge), [ROWS[1]])


def test_rows_that_cannot_be_used_are_named(ask):
    for row, reason in (
        (PromptRow(7, "a" * 60, "b" * 5), "line 7 has 65 tokens"),
        (PromptRow(7, "a", "1"), "line 7: the prompt or the completion has no"),
    ):
        with pytest.raises(LoraEvoError, match=reason):
            ask([ROWS[0], row])


def test_prompt_and_completion_become_tokens_apart():
    started = tokenizer_of_letters(start=True)
    assert encode_row(PromptRow(1, "abc", "de"), started, None) == TokenPair((0, 3, 4, 5), (6, 7))
    assert encode_row(PromptRow(1, "a"), started, 2) == TokenPair((0, 3), ())


def test_rows_are_read_with_their_lines(tmp_path):
    file = tmp_path / "rows.jsonl"
    text = '{"prompt": "a"}\n\n{"prompt": "b", "completion": "c", "d": 1}\n{"prompt": "\u2028"}\n'
    file.write_text(text, encoding="utf-8")
    assert read_rows(file) == [PromptRow(1, "a"), PromptRow(3, "b", "c"), PromptRow(4, "\u2028")]


def test_bad_rows_are_named_by_line(tmp_path):
    for payload, reason in (
        *((b"", "holds no rows"), (b"\xff\xfe", "cannot read")),
        (b'{"prompt": "a"}\n{"prompt": ', "line 2 is not JSON"),
        (b'{"prompt": "a"}\n["a"]', "line 2: expected"),
        (b'{"prompt": ""}', "line 1: expected"),
        (b'{"prompt": "a", "completion": [1]}', "line 1: expected"),
    ):
        (tmp_path / "rows.jsonl").write_bytes(payload)
        with pytest.raises(LoraEvoError, match=reason):
            read_rows(tmp_path / "rows.jsonl")


def test_the_command_probes_and_judges(home, monkeypatch):
    monkeypatch.chdir(home)
    rows = [{"prompt": "abcdefg"}, {"prompt": "abc", "completion": "def"}]
    write_rows(home / "rows.jsonl", rows)
    words = ["retention", "c", "--parent", "p", "--model", "base", "--probes", "rows.jsonl"]
    found = json.loads(call(*words, "--json").stdout)["parents"]["p"]["probe"]
    assert (found["prompts"], found["tokens"]) == (2, 7)
    ratio = found["kl_ratio"]
    result = call(*words)
    assert f"ratio {ratio:.4g} (2 prompts, 7 tokens)" in result.stdout
    assert result.stderr == ""
    result = call(*words[:-3], "p", *words[-2:], code=2)
    assert "p has no config.json" in result.stderr
    assert len(result.stderr.splitlines()) == 1
