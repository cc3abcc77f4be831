"""Pretrain the nano model: resumable, seeded, on a CPU or a GPU.

    python tools/nano/pretrain.py --out DIR [--steps 4500]

Makes the corpus, the tokenizer and the model in DIR; run it again to continue.

Hidden matrices are trained by Muon, embeddings, norms and biases by AdamW; both follow a
warm-up, constant, linear-decay schedule. Loss falls on completions only.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import torch
from torch.nn import functional
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from nano_corpus import Curriculum, Example, build_corpus, read_corpus
from nano_tokenizer import train_tokenizer

TOKENIZER_EXAMPLES = 20_000


@dataclass(frozen=True)
class PretrainConfig:
    """What a pretraining run depends on.

    examples: those of a step, which is cut into `micro_batches` passes, rows of similar length in
    one. programs: labelled ones in the corpus. warmup: steps over which the learning rate rises;
    decay: share of the steps, at the end, over which it falls to zero.
    """

    steps: int = 4500
    examples: int = 160
    micro_batches: int = 5
    hidden_size: int = 128
    layers: int = 5
    programs: int = 120_000
    muon_lr: float = 0.02
    adam_lr: float = 2e-3
    warmup: int = 100
    decay: float = 0.3
    seed: int = 0


def pretrain(
    config: PretrainConfig,
    out: Path,
    *,
    device: str,
    workers: int,
    save_every: int,
    report: Callable[[str], None],
) -> None:
    """Train into `out`, or continue what is there; `out/model` holds the finished model."""
    build_corpus(
        out / "corpus.jsonl",
        config.programs,
        config.seed,
        workers,
        lambda count, size: report(f"corpus {count}/{size}"),
    )
    corpus = read_corpus(out / "corpus.jsonl")
    curriculum = Curriculum(corpus, config.seed)

    def draw(step: int) -> list[Example]:
        return curriculum.draw(step, config.examples, step / config.steps)

    tokenizer = _tokenizer(out / "tokenizer", curriculum)
    train_model(config, out, tokenizer, draw, device=device, save_every=save_every, report=report)


def train_model(
    config: PretrainConfig,
    out: Path,
    tokenizer: PreTrainedTokenizerFast,
    draw: Callable[[int], list[Example]],
    *,
    device: str,
    save_every: int,
    report: Callable[[str], None],
) -> None:
    """Train on what `draw` gives for each step, or continue; `out/model` holds the model."""
    model = new_model(tokenizer, config.hidden_size, config.layers, config.seed).to(device)
    optimizers = _optimizers(model, config)
    start = _restore(out / "checkpoint.pt", model, optimizers, config)
    began, tokens = time.monotonic(), 0
    for step in range(start, config.steps):
        rate = _schedule(step, config)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["base_lr"] * rate
        loss, count = _step(model, tokenizer, draw(step), config.micro_batches, device)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        tokens += count
        if (step + 1) % 50 == 0:
            speed = tokens / (time.monotonic() - began)
            row = {"step": step + 1, "loss": round(loss, 4), "tokens_per_s": round(speed)}
            with (out / "log.jsonl").open("a") as log:
                log.write(json.dumps(row) + "\n")
            report(f"step {step + 1}/{config.steps} loss {loss:.3f} {speed:.0f} tokens/s")
        if (step + 1) % save_every == 0 or step + 1 == config.steps:
            _save(out / "checkpoint.pt", model, optimizers, step + 1, config)
            for part in (model, tokenizer):  # the directory that transformers, PEFT and vLLM load
                part.save_pretrained(out / "model")


def new_model(
    tokenizer: PreTrainedTokenizerFast, hidden_size: int, layers: int, seed: int
) -> Qwen2ForCausalLM:
    """Return a freshly initialised model; the same seed gives the same weights."""
    config = Qwen2Config(
        vocab_size=(len(tokenizer) + 15) // 16 * 16,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=hidden_size // 32,
        num_key_value_heads=max(1, hidden_size // 64),
        intermediate_size=hidden_size * 3,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config)


def _tokenizer(path: Path, curriculum: Curriculum) -> PreTrainedTokenizerFast:
    if not path.exists():
        drawn = curriculum.draw(-1, TOKENIZER_EXAMPLES, 1.0)
        train_tokenizer(e.prompt + e.completion for e in drawn).save_pretrained(path)
    tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(path)
    return tokenizer


def _optimizers(model: Qwen2ForCausalLM, config: PretrainConfig) -> list[torch.optim.Optimizer]:
    hidden: list[torch.nn.Parameter] = []
    remainder: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and "embed" not in name
        (hidden if is_matrix else remainder).append(parameter)
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(hidden, lr=config.muon_lr, weight_decay=0.01, momentum=0.95),
        torch.optim.AdamW(remainder, lr=config.adam_lr, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return optimizers


def _schedule(step: int, config: PretrainConfig) -> float:
    tail = max(1, int(config.steps * config.decay))
    return min(1.0, (step + 1) / config.warmup, (config.steps - step) / tail)


def _step(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    drawn: list[Example],
    micro_batches: int,
    device: str,
) -> tuple[float, int]:
    model.train()
    batches = list(_batches(tokenizer, drawn, micro_batches))
    whole = sum(float(weights.sum()) for _, weights in batches)
    total, count = 0.0, 0
    for ids, weights in batches:
        count += int((ids != tokenizer.pad_token_id).sum())
        ids, weights = ids.to(device), weights[:, 1:].to(device)
        hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
        mask = weights > 0
        losses = functional.cross_entropy(
            model.lm_head(hidden[mask]), ids[:, 1:][mask], reduction="none"
        )
        loss = (losses * weights[mask]).sum() / whole
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    return total, count


def _batches(
    tokenizer: PreTrainedTokenizerFast, drawn: list[Example], micro_batches: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield token ids [rows, T] and the weight of each token in the loss, rows of like length."""
    prompts = tokenizer([e.prompt for e in drawn])["input_ids"]
    pieces = iter(tokenizer([s.text for e in drawn for s in e.segments])["input_ids"])
    rows: list[tuple[list[int], list[float]]] = []
    for example, prompt in zip(drawn, prompts, strict=True):
        ids, weights = list(prompt), [0.0] * len(prompt)
        for segment, piece in zip(example.segments, pieces, strict=False):
            ids += piece
            weights += [segment.weight] * len(piece)
        rows.append((ids, weights))
    rows.sort(key=lambda row: len(row[0]))
    size = -(-len(rows) // micro_batches)
    for at in range(0, len(rows), size):
        chunk = rows[at : at + size]
        width = len(chunk[-1][0])
        batch = torch.full((len(chunk), width), int(tokenizer.pad_token_id))
        weighted = torch.zeros(len(chunk), width)
        for i, (ids, weights) in enumerate(chunk):
            batch[i, : len(ids)] = torch.tensor(ids)
            weighted[i, : len(ids)] = torch.tensor(weights)
        yield batch, weighted


def _save(
    path: Path,
    model: Qwen2ForCausalLM,
    optimizers: list[torch.optim.Optimizer],
    step: int,
    config: PretrainConfig,
) -> None:
    state = {
        "step": step,
        "config": asdict(config),
        "model": model.state_dict(),
        "optimizers": [o.state_dict() for o in optimizers],
    }
    draft = path.with_suffix(".tmp")
    torch.save(state, draft)
    os.replace(draft, path)


def _restore(
    path: Path,
    model: Qwen2ForCausalLM,
    optimizers: list[torch.optim.Optimizer],
    config: PretrainConfig,
) -> int:
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    for key in ("hidden_size", "layers", "seed"):
        if state["config"][key] != getattr(config, key):
            raise click.UsageError(
                f"{path} was trained with {key} {state['config'][key]}, "
                f"not {getattr(config, key)}; choose another --out"
            )
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    step: int = state["step"]
    return step


@click.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Working directory.")
@click.option("--steps", type=click.IntRange(1), default=4500, show_default=True)
@click.option("--examples", type=click.IntRange(1), default=160, show_default=True)
@click.option("--programs", type=click.IntRange(1), default=120_000, show_default=True)
@click.option("--hidden-size", type=click.IntRange(32), default=128, show_default=True)
@click.option("--layers", type=click.IntRange(1), default=5, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True)
@click.option("--save-every", type=click.IntRange(1), default=200, show_default=True)
def main(out: Path, workers: int, save_every: int, **settings: int) -> None:
    """Pretrain the nano model on generated programs; run it again to continue."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = PretrainConfig(**settings)
    pretrain(config, out, device=device, workers=workers, save_every=save_every, report=click.echo)
    click.echo(f"model: {out / 'model'}")


if __name__ == "__main__":
    main()
