"""A base model of random weights in the shape of a known one, for memory and speed alone.

    python benchmarks/random_base.py Qwen/Qwen2.5-Coder-7B OUT --tokenizer FOLDER [--layers N]

Writes OUT as an ordinary directory in bfloat16. The tokenizer is that of another model, whose
vocabulary is smaller: what such a base writes means nothing, and hardly any text of it ends.
"""

import shutil
from pathlib import Path

import torch
from benchmarking import parser
from transformers import AutoModelForCausalLM

from selfplay.machine.architecture import model_config


def main() -> None:
    options = parser(__doc__)
    options.add_argument(
        "shape", help="folder with a config.json, or hub name, as for `selfplay plan`"
    )
    options.add_argument("out", type=Path)
    options.add_argument("--tokenizer", type=Path, required=True)
    options.add_argument("--layers", type=int, help="instead of the shape's own")
    a = options.parse_args()
    config = model_config(a.shape)
    config.num_hidden_layers = a.layers or config.num_hidden_layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: config.num_hidden_layers]
    config.max_position_embeddings = 32768
    config.dtype = torch.bfloat16
    torch.set_default_dtype(torch.bfloat16)
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(a.out, max_shard_size="4GB")
    for file in a.tokenizer.glob("*token*"):
        shutil.copy(file, a.out)
    print(f"{a.out}: {sum(p.numel() for p in model.parameters()) / 1e9:.2f} billion parameters")


if __name__ == "__main__":
    main()
