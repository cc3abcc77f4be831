"""GRPO with TRL, rewarded by the sandbox: a tiny random model learns to invert functions.

Needs code_verifier with its extra `trl` (docs/install.md) and no download: the model and its
twenty words are made here. The model sees which function is meant and what it returned, and answers
with an input; any input that gives the output is right. Takes less than two minutes on a CPU.
"""

import argparse
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer

from code_verifier import trl_reward

PROGRAMS = {
    "parity": "def f(x):\n    return x % 2",
    "large": "def f(x):\n    return x > 4",
    "third": "def f(x):\n    return x // 3",
    "digits": "def f(x):\n    return len(set(str(x * x)))",
}
OUTPUTS = {"parity": ["0", "1"], "large": ["True"], "third": ["1"], "digits": ["1", "2"]}
WORDS = ["<pad>", "<end>", *PROGRAMS, "True", *map(str, range(10))]


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )


def model() -> Qwen2ForCausalLM:
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(WORDS),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )


def tasks() -> Dataset:
    return Dataset.from_list(
        [
            {"prompt": f"{name} {output}", "kind": "code_i", "program": program, "output": output}
            for name, program in PROGRAMS.items()
            for output in OUTPUTS[name]
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model(),
            # The whole completion is the answer; a real model writes it in a fence or a tag,
            # which the default `parse` finds.
            reward_funcs=trl_reward(parse=lambda text: text.strip() or None),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=steps,
                learning_rate=3e-3,
                lr_scheduler_type="constant",
                per_device_train_batch_size=48,
                num_generations=8,
                max_completion_length=1,
                beta=0.0,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                disable_tqdm=True,
                seed=0,
            ),
            train_dataset=tasks(),
            processing_class=tokenizer(),
        )
        trainer.train()
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    few = max(1, len(rewards) // 5)
    print(f"mean reward of the first {few} steps {sum(rewards[:few]) / few:.2f}, ", end="")
    print(f"of the last {few} {sum(rewards[-few:]) / few:.2f}")


if __name__ == "__main__":
    main()
