"""The joint learner: one forward and one backward pass for all members, one AdamW for each.

Rows of similar length from all members share micro-batches of a bounded number of tokens. The loss
of every member is normalised over that member's own batch, so neither the cut into micro-batches
nor the other members change its gradient.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from evals.engine.adapter_exchange import export_adapter, import_adapter
from evals.engine.stacked_lora import StackedAdapters, stack_adapters
from lora_evo import Adapter
from selfplay.errors import SelfplayError
from selfplay.learning.batch import Row, TrainingSample, batch_rows, micro_batches
from selfplay.learning.gradient_noise import GroupGradients, NoiseAverage, restored
from selfplay.learning.optimizer import MemberAdamW
from selfplay.learning.policy_loss import token_losses
from selfplay.learning.settings import LearnerConfig
from selfplay.learning.update_stats import StatsSum, UpdateStats

__all__ = ["Learner", "LearnerConfig", "TrainingSample", "UpdateStats"]


class Learner:
    """Trains all adapters of one frozen base together."""

    def __init__(
        self,
        model: Any,
        tokenizer_pad_id: int,
        members: Sequence[str],
        config: LearnerConfig,
        *,
        seed: int,
        base_model: str | None = None,
        roles: Sequence[str] | None = None,
    ):
        """Put fresh adapters for `members` on the model, in place.

        tokenizer_pad_id fills rows on the right (any valid id: no loss ever sees it); base_model is
        the name written into exported adapters; roles[m] chooses the learning rate of place m.
        """
        self.model = model
        self.config = config
        self.base_model = base_model
        self._pad = tokenizer_pad_id
        self._seed = seed
        self.adapters: StackedAdapters = stack_adapters(
            model,
            members,
            r=config.r,
            lora_alpha=config.lora_alpha,
            target_modules=config.target_modules,
            seed=seed,
        )
        self.optimizer = MemberAdamW(
            [self.adapters.parameters_of(m) for m in range(len(members))],
            config.adamw_options(),
            [config.learning_rate_of(role) for role in roles or [""] * len(members)],
        )
        self._noise: dict[str, NoiseAverage] = {}

    @property
    def members(self) -> tuple[str, ...]:
        """Names in the order of their places."""
        return tuple(self.adapters.members)

    def update(
        self, samples: Sequence[TrainingSample], lr_factor: float = 1.0
    ) -> dict[str, UpdateStats]:
        """Take `num_iterations` steps for every member with a sample that says something.

        lr_factor scales every member's learning rate. Samples without advantage or weight are left
        out of the passes; a member that has no other is left as it is. Returns the statistics of
        each member with samples: of the first iteration, the clip ratio of the last.
        """
        rows = batch_rows(
            samples, self.adapters, self.config.loss_options(), self.config.noise_groups
        )
        teaching = [row for row in rows if row.teaches]
        learning = sorted({row.member for row in teaching})
        first = {m: StatsSum() for m in sorted({row.member for row in rows})}
        for row in rows:
            first[row.member].add_row(row.sample.logprobs)
        last = first
        outcomes: dict[int, tuple[float | None, bool]] = dict.fromkeys(first, (None, False))
        noise: dict[int, dict[str, float | None]] = {}
        for iteration in range(self.config.num_iterations):
            last = {m: StatsSum() for m in first} if iteration else first
            self.optimizer.zero_grad()
            gradients = self.backward(teaching, last)
            if iteration == 0:
                noise = self._measure_noise(rows, gradients)
            for member in learning:
                outcome = self.optimizer.step(member, lr_factor)
                if iteration == 0:
                    outcomes[member] = outcome
        self.optimizer.zero_grad()
        for member, sums in first.items():
            sums.clipped = last[member].clipped
        return {self.members[m]: s.stats(*outcomes[m], noise.get(m, {})) for m, s in first.items()}

    def backward(
        self, rows: Sequence[Row], sums: dict[int, StatsSum]
    ) -> dict[tuple[int, str], GroupGradients]:
        """Leave the loss's gradient on the parameters; return it by group as well."""
        cut: dict[tuple[str, int], list[Row]] = defaultdict(list)
        for row in rows:
            cut[row.sample.role, row.group].append(row)
        groups = sorted(cut) if self.config.noise_groups else []
        if not groups:
            for batch in micro_batches(rows, self.config.micro_batch_tokens):
                self._forward(batch, sums).backward()  # type: ignore[no-untyped-call]
            return {}
        found: dict[tuple[int, str], GroupGradients] = defaultdict(GroupGradients)
        totals: dict[int, list[Tensor]] = {}
        for role, group in groups:
            chosen = cut[role, group]
            for batch in micro_batches(chosen, self.config.micro_batch_tokens):
                self._forward(batch, sums).backward()  # type: ignore[no-untyped-call]
            for member in sorted({row.member for row in chosen}):
                own = list(self.adapters.parameters_of(member).values())
                gradient = [torch.zeros_like(p) if p.grad is None else p.grad for p in own]
                found[member, role].add(group, gradient)
                if member in totals:
                    torch._foreach_add_(totals[member], gradient)
                else:
                    totals[member] = [g.clone() for g in gradient]
            self.optimizer.zero_grad()
        for member, total in totals.items():
            parameters = self.adapters.parameters_of(member).values()
            for p, whole in zip(parameters, total, strict=True):
                p.grad = whole
        return found

    def _measure_noise(
        self, rows: Sequence[Row], gradients: Mapping[tuple[int, str], GroupGradients]
    ) -> dict[int, dict[str, float | None]]:
        """Return the noise scale of each member by role, averaged over its updates."""
        scales: dict[int, dict[str, float | None]] = defaultdict(dict)
        for (member, role), found in gradients.items():
            mine = [row for row in rows if row.member == member and row.sample.role == role]
            noise = found.noise(mine)
            if noise is not None:
                average = self._noise.setdefault(f"{member}/{role}", NoiseAverage())
                average.add(noise)
                scales[member][role] = average.scale
        return scales

    def export(self, member: str) -> Adapter:
        """Return a copy of a member's adapter in PEFT's layout."""
        return export_adapter(self.adapters, self.adapters.index(member), self.base_model)

    def replace(self, member: str, adapter: Adapter, new_name: str) -> None:
        """Put an adapter in a member's place under a new name, with a fresh optimiser state."""
        if new_name != member and new_name in self.members:
            raise SelfplayError(f"there is already a member named {new_name!r}")
        place = self.adapters.index(member)
        import_adapter(self.adapters, place, adapter)
        self.adapters.members[place] = new_name
        self.optimizer.reset(place)
        for key in [key for key in self._noise if key.startswith(f"{place}/")]:
            del self._noise[key]

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return tensors (for safetensors) and plain values (for JSON) that continue this learner.

        Tensors: `<place>/weights/<module>.lora_A`, `<place>/exp_avg/...`, `<place>/exp_avg_sq/...`.
        """
        tensors = self.optimizer.tensors()
        for place in range(len(self.members)):
            for name, p in self.adapters.parameters_of(place).items():
                tensors[f"{place}/weights/{name}"] = p.detach().clone()
        return tensors, {
            "members": list(self.members),
            "optimizer": self.optimizer.scalars(),
            "noise": {key: average.to_dict() for key, average in self._noise.items()},
        }

    @torch.no_grad()
    def load_state_dict(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken; the numbers of members must agree."""
        names = [str(name) for name in values["members"]]
        if len(names) != len(self.members):
            raise SelfplayError(f"the state has {len(names)} members, expected {len(self.members)}")
        weights = {
            f"{place}/weights/{name}": p
            for place in range(len(names))
            for name, p in self.adapters.parameters_of(place).items()
        }
        for key, p in weights.items():
            if key not in tensors or tensors[key].shape != p.shape:
                shape = list(tensors[key].shape) if key in tensors else None
                raise SelfplayError(
                    f"learner state {key!r}: found {shape}, expected {list(p.shape)}"
                )
        self.optimizer.load(tensors, values["optimizer"])
        for key, p in weights.items():
            p.copy_(tensors[key])
        self.adapters.members[:] = names
        self._noise = restored(values.get("noise", {}))

    def _forward(self, batch: list[Row], sums: dict[int, StatsSum]) -> Tensor:
        """Return the batch's part of the loss and add its tokens to the statistics."""
        device = next(self.model.parameters()).device
        T = max(row.length for row in batch) - 1
        ids = torch.full((len(batch), T), self._pad)
        places: list[Tensor] = []
        targets: list[int] = []
        rollout: list[float] = []
        lengths: list[int] = []
        for i, row in enumerate(batch):
            s = row.sample
            whole = (*s.prompt_ids, *s.completion_ids)
            ids[i, : len(whole) - 1] = torch.tensor(whole[:-1])
            places.append(torch.arange(len(s.prompt_ids) - 1, len(whole) - 1) + i * T)
            targets.extend(s.completion_ids)
            rollout.extend(s.logprobs)
            lengths.append(len(s.completion_ids))
        repeats = torch.tensor(lengths, device=device)

        def per_token(values: list[float]) -> Tensor:
            return torch.tensor(values, device=device).repeat_interleave(repeats)

        with self.adapters.route([row.member for row in batch]):
            # Causal attention and padding on the right: real tokens never see the padding.
            hidden = self.model.model(input_ids=ids.to(device), use_cache=False).last_hidden_state
        picked = hidden.reshape(-1, hidden.shape[-1])[torch.cat(places).to(device)]
        logits = self.model.lm_head(picked).float() / self.config.temperature
        logprobs = -F.cross_entropy(logits, torch.tensor(targets, device=device), reduction="none")
        now = logprobs.detach()
        for row, part in zip(batch, torch.split(now, lengths), strict=True):
            row.old = part if row.old is None else row.old
        old = torch.cat([row.old for row in batch if row.old is not None])
        parts = token_losses(
            logprobs,
            old,
            torch.tensor(rollout, device=device),
            per_token([row.sample.advantage for row in batch]),
            self.config.loss_options(),
        )
        weighted = parts.loss * per_token([row.weight for row in batch])
        log_ratio = now - torch.tensor(rollout, device=device)
        columns = (weighted.detach(), parts.clipped, parts.importance, log_ratio)
        cap = self.config.importance_sampling_clip_max
        split = [torch.split(column, lengths) for column in columns]
        for row, *tokens in zip(batch, *split, strict=True):
            sums[row.member].add_tokens(*tokens, importance_clip_max=cap)
        return weighted.sum()
