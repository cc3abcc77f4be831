"""Times of the joint learner and generator against one adapter and against PEFT, in one run.

    OMP_NUM_THREADS=1 python tests/benchmarks/joint_learner.py [--rounds 3] [--rows 64]

The nano model, random tokens; equal tokens in every row of the table. Variants are measured in
turn, several rounds, CPU seconds of the process, best round. "1 adapter" has as many rows in all as
"8 adapters". PEFT does the 8 adapters one after the other with `set_adapter`.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import peft
import torch
from benchmarking import best_of, parser, show

from lora_evo.model import TARGET_MODULES, HFEngine, TokenRequest, load_base_model, stream
from selfplay import Learner, TrainingSample
from selfplay.learning.learner import LearnerConfig
from selfplay.learning.optimizer import MemberAdamW

MEMBERS = tuple(f"m{i}" for i in range(8))
PROMPT, COMPLETION, VOCABULARY = 48, 128, 400
CONFIG = LearnerConfig(r=8, lora_alpha=16)


def base() -> torch.nn.Module:
    return load_base_model("nano", torch.device("cpu")).model


def learner(members: Sequence[str]) -> Learner:
    """Return a learner whose B are not zero."""
    found = Learner(base(), 0, members, CONFIG, seed=1)
    with torch.no_grad():
        for member in range(len(members)):
            for p in found.adapters.parameters_of(member).values():
                p.add_(torch.from_numpy(stream(member).standard_normal(tuple(p.shape))) * 0.02)
    return found


def samples(rows: int, members: Sequence[str]) -> list[TrainingSample]:
    """Rows in turn for every member; completions of 1/2 to 1 times the longest."""
    found = []
    for i in range(rows):
        draw = stream(i)
        length = int(draw.integers(COMPLETION // 2, COMPLETION + 1))
        ids = draw.integers(20, VOCABULARY, PROMPT + length).tolist()
        parts = (tuple(ids[:PROMPT]), tuple(ids[PROMPT:]), (-6.0,) * length)
        advantage = float(draw.standard_normal())
        found.append(TrainingSample(members[i % len(members)], *parts, advantage))
    return found


def length(sample: TrainingSample) -> int:
    return len(sample.prompt_ids) + len(sample.completion_ids)


def with_peft() -> peft.PeftModel:
    """The base with eight PEFT adapters."""
    config = peft.LoraConfig(r=8, lora_alpha=16, target_modules=list(TARGET_MODULES))
    model = peft.get_peft_model(base(), config, adapter_name=MEMBERS[0])
    for name in MEMBERS[1:]:
        model.add_adapter(name, config)
    return model


def peft_update(model: peft.PeftModel, batch: list[TrainingSample]) -> Callable[[], None]:
    """The same update, one adapter after the other."""
    parameters = [
        {n: p for n, p in model.named_parameters() if f".{m}." in n and "lora_" in n}
        for m in MEMBERS
    ]
    optimizer = MemberAdamW(parameters, CONFIG)

    def update() -> None:
        for place, member in enumerate(MEMBERS):
            model.set_adapter(member)
            mine = sorted((s for s in batch if s.member == member), key=length, reverse=True)
            tokens = sum(len(s.completion_ids) for s in mine)
            per_pass = max(1, CONFIG.micro_batch_tokens // length(mine[0]))
            for start in range(0, len(mine), per_pass):
                rows = mine[start : start + per_pass]
                ids = torch.zeros(len(rows), length(rows[0]), dtype=torch.long)
                scale = torch.zeros(ids.shape)
                for i, s in enumerate(rows):
                    ids[i, : length(s)] = torch.tensor(s.prompt_ids + s.completion_ids)
                    scale[i, PROMPT : length(s)] = s.advantage / tokens
                picked, targets, inner = scale[:, 1:] != 0, ids[:, 1:], model.base_model.model
                hidden = inner.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
                table = torch.log_softmax(inner.lm_head(hidden[picked]), -1)
                logps = table.gather(1, targets[picked][:, None])[:, 0]
                (-(logps * scale[:, 1:][picked]).sum()).backward()
            optimizer.step(place)
        optimizer.zero_grad()

    return update


def peft_generate(model: peft.PeftModel, asked: list[TokenRequest]) -> Callable[[], None]:
    """transformers' generate, one adapter after the other."""
    limits = {"min_new_tokens": COMPLETION, "max_new_tokens": COMPLETION, "pad_token_id": 0}

    def generate() -> None:
        for member in MEMBERS:
            model.set_adapter(member)
            ids = torch.tensor([r.prompt_ids for r in asked if r.adapter == member])
            with torch.inference_mode():
                mask = torch.ones_like(ids)
                model.generate(
                    input_ids=ids, attention_mask=mask, do_sample=True, top_k=0, **limits
                )

    return generate


def timed(what: str, tokens: int, rounds: int, variants: dict[str, Callable[[], object]]) -> None:
    """Print a row for each variant."""
    best = best_of(rounds, variants)
    show(
        [
            {what: n, "CPU s": s, "tokens/s": tokens / s, "to 1 adapter": s / best["1 adapter"]}
            for n, s in best.items()
        ]
    )


def main() -> None:
    options = parser(__doc__, rows=64, rounds=3)
    given = options.parse_args()
    eight, one, reference = learner(MEMBERS), learner(MEMBERS[:1]), with_peft()
    batch8, batch1 = (samples(given.rows, members) for members in (MEMBERS, MEMBERS[:1]))
    updates = {
        "1 adapter": lambda: one.update(batch1),
        "8 adapters": lambda: eight.update(batch8),
        "8 adapters, PEFT in turn": peft_update(reference, batch8),
    }
    timed("update", sum(map(length, batch8)), given.rounds, updates)

    def asked(batch: list[TrainingSample]) -> list[TokenRequest]:
        return [
            TokenRequest(s.member, s.prompt_ids, COMPLETION, 1.0, i) for i, s in enumerate(batch)
        ]

    endless = SimpleNamespace(eos_token_id=VOCABULARY + 100)  # a tokenizer whose end never comes
    engine8, engine1 = (HFEngine(x.adapters, endless) for x in (eight, one))
    generations = {
        "1 adapter": lambda: engine1.rollouts(asked(batch1)),
        "8 adapters": lambda: engine8.rollouts(asked(batch8)),
        "8 adapters, PEFT in turn": peft_generate(reference, asked(batch8)),
    }
    timed("generate", given.rows * COMPLETION, given.rounds, generations)


if __name__ == "__main__":
    main()
