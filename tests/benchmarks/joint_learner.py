"""Times of the joint learner and generator against one adapter and against PEFT, in one run.

    OMP_NUM_THREADS=1 python tests/benchmarks/joint_learner.py [--rounds 3] [--rows 64]

A Qwen2 of nano size with random weights; equal tokens in every row of the table. Variants are
measured in turn, several rounds, CPU seconds of the process, best round. "1 adapter" has as many
rows in all as "8 adapters". PEFT does the 8 adapters one after the other with `set_adapter`.
"""

import copy
from collections.abc import Callable

import peft
import torch
from benchmarking import Row, best_of, parser, show
from transformers import Qwen2Config, Qwen2ForCausalLM

from lora_evo.model import TARGET_MODULES, HFEngine, TokenRequest, stream
from selfplay.learning.learner import Learner, LearnerConfig, TrainingSample
from selfplay.learning.optimizer import MemberAdamW

VOCABULARY = 512
MEMBERS = [f"m{i}" for i in range(8)]
LAYERS, PROMPT, COMPLETION = 4, 48, 128


class IdsOnly:
    """Stands in for a tokenizer: only the end token is asked for, and none ever comes."""

    eos_token_id = VOCABULARY


def nano(layers: int) -> Qwen2ForCausalLM:
    """A model of nano size with random weights."""
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng():
        return Qwen2ForCausalLM(config).eval()


def learner(base: Qwen2ForCausalLM, members: list[str], budget: int) -> Learner:
    """A learner on a copy of the base, B not zero."""
    config = LearnerConfig(r=8, lora_alpha=16, micro_batch_tokens=budget)
    found = Learner(copy.deepcopy(base), 0, members, config, seed=1)
    with torch.no_grad():
        for member in range(len(members)):
            for p in found.adapters.parameters_of(member).values():
                p.add_(torch.from_numpy(stream(member).standard_normal(tuple(p.shape))) * 0.02)
    return found


def samples(rows: int, members: list[str], prompt: int, completion: int) -> list[TrainingSample]:
    """Rows in turn for every member; prompts of one length, completions of 1/2 to 1 times it."""
    found = []
    for i in range(rows):
        draw = stream(i)
        length = int(draw.integers(completion // 2, completion + 1))
        ids = draw.integers(0, VOCABULARY, prompt + length).tolist()
        found.append(
            TrainingSample(
                members[i % len(members)],
                tuple(ids[:prompt]),
                tuple(ids[prompt:]),
                (-6.0,) * length,
                float(draw.standard_normal()),
            )
        )
    return found


def with_peft(base: Qwen2ForCausalLM) -> peft.PeftModel:
    """The base with eight PEFT adapters."""
    config = peft.LoraConfig(r=8, lora_alpha=16, target_modules=list(TARGET_MODULES))
    with torch.random.fork_rng():
        model = peft.get_peft_model(copy.deepcopy(base), config, adapter_name=MEMBERS[0])
        for name in MEMBERS[1:]:
            model.add_adapter(name, config)
    return model


def peft_update(
    model: peft.PeftModel, batch: list[TrainingSample], budget: int
) -> Callable[[], None]:
    """The same update, one adapter after the other."""
    parameters = {
        m: {n: p for n, p in model.named_parameters() if f".{m}." in n and "lora_" in n}
        for m in MEMBERS
    }
    optimizer = MemberAdamW(list(parameters.values()), LearnerConfig())

    def update() -> None:
        for place, member in enumerate(MEMBERS):
            model.set_adapter(member)
            mine = sorted((s for s in batch if s.member == member), key=_length, reverse=True)
            tokens = sum(len(s.completion_ids) for s in mine)
            per_pass = max(1, budget // _length(mine[0]))
            for start in range(0, len(mine), per_pass):
                rows = mine[start : start + per_pass]
                ids = torch.zeros(len(rows), _length(rows[0]) - 1, dtype=torch.long)
                targets, scale = torch.zeros_like(ids), torch.zeros(ids.shape)
                for i, s in enumerate(rows):
                    whole = torch.tensor(s.prompt_ids + s.completion_ids)
                    ids[i, : len(whole) - 1], targets[i, : len(whole) - 1] = whole[:-1], whole[1:]
                    scale[i, len(s.prompt_ids) - 1 : len(whole) - 1] = s.advantage / tokens
                hidden = model.base_model.model.model(input_ids=ids, use_cache=False)
                picked = scale != 0
                logits = model.base_model.model.lm_head(hidden.last_hidden_state[picked])
                table = torch.log_softmax(logits, -1)
                logps = table.gather(1, targets[picked][:, None])[:, 0]
                (-(logps * scale[picked]).sum()).backward()
            optimizer.step(place)
        optimizer.zero_grad()

    return update


def _length(sample: TrainingSample) -> int:
    return len(sample.prompt_ids) + len(sample.completion_ids)


def peft_generate(model: peft.PeftModel, asked: list[TokenRequest]) -> Callable[[], None]:
    """transformers' generate, one adapter after the other."""

    def generate() -> None:
        for member in MEMBERS:
            model.set_adapter(member)
            ids = torch.tensor([r.prompt_ids for r in asked if r.adapter == member])
            with torch.inference_mode():
                model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=True,
                    top_k=0,
                    max_new_tokens=asked[0].max_tokens,
                    pad_token_id=0,
                )

    return generate


def timed(
    what: str, tokens: int, rounds: int, variants: dict[str, Callable[[], object]]
) -> list[Row]:
    """Return a row for each variant."""
    best = best_of(rounds, variants)
    return [
        {
            what: name,
            "CPU s": seconds,
            "tokens/s": tokens / seconds,
            "to 1 adapter": seconds / best["1 adapter"],
        }
        for name, seconds in best.items()
    ]


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=64)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    base, budget = nano(LAYERS), LearnerConfig().micro_batch_tokens
    eight, one = learner(base, MEMBERS, budget), learner(base, ["m0"], budget)
    reference = with_peft(base)
    batch8, batch1 = (samples(given.rows, m, PROMPT, COMPLETION) for m in (MEMBERS, ["m0"]))
    updates = {
        "1 adapter": lambda: one.update(batch1),
        "8 adapters": lambda: eight.update(batch8),
        "8 adapters, PEFT in turn": peft_update(reference, batch8, budget),
    }
    show(timed("update", sum(map(_length, batch8)), given.rounds, updates))

    def ask(names: list[str | None]) -> list[TokenRequest]:
        return [
            TokenRequest(names[i % len(names)], s.prompt_ids, COMPLETION, 1.0, i)
            for i, s in enumerate(batch8)
        ]

    engine8, engine1 = (HFEngine(x.adapters, IdsOnly()) for x in (eight, one))
    generations = {
        "no adapter": lambda: engine1.rollouts(ask([None])),
        "1 adapter": lambda: engine1.rollouts(ask(["m0"])),
        "8 adapters": lambda: engine8.rollouts(ask([*MEMBERS])),
        "8 adapters, PEFT in turn": peft_generate(reference, ask([*MEMBERS])),
    }
    show(timed("generate", given.rows * COMPLETION, given.rounds, generations))


if __name__ == "__main__":
    main()
