"""Pretrain the base of the world of niches: resumable, seeded, on one core in minutes.

    PYTHONPATH=tools/nano python -m studies.collapse.pretrain --out DIR [--steps 2500] [--narrow]

Run it again to continue; DIR/model is the finished model.
"""

from pathlib import Path

import click
import torch
from studies.collapse.corpus import draw
from transformers import AutoTokenizer

from nano_tokenizer import train_tokenizer
from pretrain import PretrainConfig, train_model

PARTS = r"def f\(x\):\n    return |[a-h][0-3]\(|z\(|, x\)|x\)+|\d|."
VOCABULARY = 336


@click.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Working directory.")
@click.option("--steps", type=click.IntRange(1), default=2500, show_default=True)
@click.option("--examples", type=click.IntRange(1), default=256, show_default=True)
@click.option("--hidden-size", type=click.IntRange(32), default=64, show_default=True)
@click.option("--layers", type=click.IntRange(1), default=4, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--narrow", is_flag=True, help="Most proposals are easy ones of two families.")
@click.option("--save-every", type=click.IntRange(1), default=200, show_default=True)
def main(out: Path, save_every: int, narrow: bool, **sizes: int) -> None:
    """Pretrain the base of the world of niches; run it again to continue."""
    config = PretrainConfig(micro_batches=1, **sizes)
    place = out / "tokenizer"
    if not place.exists():
        texts = [e.prompt + e.completion for e in draw(config.seed, -1, 5000)]
        train_tokenizer(texts, PARTS, VOCABULARY).save_pretrained(place)
    tokenizer = AutoTokenizer.from_pretrained(place)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def examples(step: int):
        return draw(config.seed, step, config.examples, narrow)

    train_model(
        config, out, tokenizer, examples, device=device, save_every=save_every, report=click.echo
    )
    click.echo(f"model: {out / 'model'}")


if __name__ == "__main__":
    main()
