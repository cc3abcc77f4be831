"""Adapters trained side by side on worked examples: a `Learner` that needs only a base model.

Loss: the mean negative log-likelihood of a batch's completion tokens, the usual supervised
fine-tuning of a LoRA (Hu et al. 2021, arXiv 2106.09685), by AdamW without weight decay
(Loshchilov and Hutter 2019) on A and B in float32. Nothing is dropped out. Which rows come up at a
step follows from the seed and the step alone, so that a child and its controls meet the same.
Fitness: of each held-out row the geometric mean of the probabilities of its completion's tokens,
exp(mean log-likelihood), from 0 to 1; unlike a log-likelihood it has a zero, so that a share of it
means something.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from lora_evo.errors import LoraEvoError, checked_count
from lora_evo.files.adapter import Adapter, Slot
from lora_evo.linalg.noise import stream
from lora_evo.probing.base_model import BaseModel, LoraDelta
from lora_evo.probing.prompt_rows import ProbeRow, TokenRow, padded, tokenised
from lora_evo.recovery.training_rows import TrainingRows


@dataclass(frozen=True)
class TrainingRecipe:
    """How adapters are trained."""

    learning_rate: float = 1e-4
    """Of AdamW, constant from the first step."""
    batch_size: int = 8
    """Rows per step."""

    def __post_init__(self) -> None:
        checked_count("batch_size", self.batch_size)
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise LoraEvoError(f"the learning rate is {self.learning_rate}; expected more than 0")


@dataclass(eq=False)
class _Place:
    """One adapter in training."""

    like: Adapter
    deltas: dict[str, LoraDelta]
    optimizer: torch.optim.Optimizer


@dataclass(eq=False)
class SupervisedLearner:
    """A `Learner` for rows with completions. Raises `LoraEvoError`.

    Equal calls give equal numbers on the same machine with the same versions and threads.
    """

    base: BaseModel
    rows: TrainingRows
    recipe: TrainingRecipe = field(default_factory=TrainingRecipe)
    on_step: Callable[[int], None] | None = None
    """Called after each step of all active adapters with the steps done since `start`."""

    def __post_init__(self) -> None:
        size, there = self.recipe.batch_size, len(self.rows.train)
        if there < size:
            raise LoraEvoError(
                f"there are {there} rows to train on, and {size} in a batch; give more rows or a "
                f"batch size of at most {there}"
            )
        self._train = self._tokens(self.rows.train, "training")
        self._held_out = self._tokens(self.rows.held_out, "held-out")
        self._places: list[_Place] = []
        self._seed = self._done = 0

    def start(self, adapters: Sequence[Adapter], seed: int) -> None:
        """Take copies of the adapters to train, with fresh optimiser state."""
        self._places = []
        for adapter in adapters:
            deltas = {
                path: LoraDelta(_leaf(delta.down), _leaf(delta.up), delta.scale)
                for path, delta in self.base.deltas(adapter, "an adapter").items()
            }
            factors = [half for delta in deltas.values() for half in (delta.down, delta.up)]
            rate = self.recipe.learning_rate
            optimizer = torch.optim.AdamW(factors, lr=rate, weight_decay=0.0)
            self._places.append(_Place(adapter, deltas, optimizer))
        self._seed, self._done = seed, 0

    def step(self, active: Sequence[int]) -> None:
        """One update of each of these adapters on the same batch."""
        for place in (self._places[index] for index in active):
            loss = self._loss(place)
            if not math.isfinite(float(loss.detach())):
                raise LoraEvoError(
                    f"the loss is {float(loss.detach())} at step {self._done}; lower the learning "
                    "rate, or load the model as float32"
                )
            place.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            place.optimizer.step()
        self._done += 1
        if self.on_step is not None:
            self.on_step(self._done)

    def fitness(self, active: Sequence[int]) -> list[list[float]]:
        """For each of these adapters the mean probability of every held-out completion's tokens."""
        return [self._probabilities(self._places[place]) for place in active]

    def loss(self, place: int) -> float:
        """The loss of an adapter on the batch that its next step would see, in nats per token."""
        with torch.no_grad():
            return float(self._loss(self._places[place]))

    def export(self, place: int) -> Adapter:
        """An adapter as it is now, in the dtypes it came in."""
        like, deltas = self._places[place].like, self._places[place].deltas
        slots = {}
        for path, slot in like.slots.items():
            a, b = deltas[path].down.detach().cpu(), deltas[path].up.detach().cpu()
            slots[path] = Slot(a.to(slot.A.dtype), b.to(slot.B.dtype), slot.scale, slot.layout)
        return Adapter(like.config, slots)

    def setting(self) -> dict[str, object]:
        """What the numbers hang on, as plain values for a journal."""
        return {
            "learner": "supervised",
            "fitness": "exp(mean log-likelihood) of each held-out completion",
            "learning_rate": self.recipe.learning_rate,
            "batch_size": self.recipe.batch_size,
            "training_rows": len(self.rows.train),
            "held_out_rows": len(self.rows.held_out),
            "rows": self.rows.fingerprint,
            "base": base_fingerprint(self.base),
            "dtype": str(next(self.base.model.parameters()).dtype).removeprefix("torch."),
        }

    def _tokens(self, rows: Sequence[ProbeRow], what: str) -> list[TokenRow]:
        base = self.base
        try:
            return tokenised(
                rows, base.tokenizer, skip=1, longest=base.context, vocabulary=base.vocabulary
            )
        except LoraEvoError as error:
            raise LoraEvoError(f"{what} rows: {error}") from error

    def _loss(self, place: _Place) -> torch.Tensor:
        rows = [self._train[row] for row in self._batch()]
        with self.base.applied(place.deltas):
            chosen = torch.cat(list(_likelihoods(self.base, rows)))
        return -chosen.mean()

    def _batch(self) -> list[int]:
        """Places of the next rows in an endless row of shuffled epochs."""
        size, total = self.recipe.batch_size, len(self._train)
        first, end = self._done * size, (self._done + 1) * size
        rows: list[int] = []
        for epoch in range(first // total, (end - 1) // total + 1):
            shuffled = stream(self._seed, "order", str(epoch)).permutation(total)
            rows += shuffled[max(0, first - epoch * total) : end - epoch * total].tolist()
        return rows

    def _probabilities(self, place: _Place) -> list[float]:
        rows = self._held_out
        order = sorted(range(len(rows)), key=lambda at: (-len(rows[at].ids), at))
        found = [0.0] * len(rows)
        with torch.inference_mode(), self.base.applied(place.deltas):
            for start in range(0, len(order), self.recipe.batch_size):
                part = order[start : start + self.recipe.batch_size]
                chosen = _likelihoods(self.base, [rows[at] for at in part])
                for at, values in zip(part, chosen, strict=True):
                    found[at] = math.exp(float(values.double().mean()))
        if not all(map(math.isfinite, found)):
            raise LoraEvoError(
                f"the distributions after step {self._done} are not finite; lower the learning "
                "rate, or load the model as float32"
            )
        return found


def base_fingerprint(base: BaseModel) -> str:
    """A hash of names, shapes and 64 spread values of every parameter: quick, and enough to tell
    one model from another, or from itself after training."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in base.model.named_parameters():
        digest.update(f"{name} {list(value.shape)}".encode())
        flat = value.detach().reshape(-1)
        spread = flat[:: max(1, len(flat) // 64)].float().cpu().contiguous()
        digest.update(spread.numpy().tobytes())
    return digest.hexdigest()


def _leaf(half: torch.Tensor) -> torch.Tensor:
    return half.clone().requires_grad_()


def _likelihoods(base: BaseModel, rows: Sequence[TokenRow]) -> Iterator[torch.Tensor]:
    """Of every row the log-likelihoods [tokens] of its completion."""
    logits = base.logits(*padded(rows, base.device))
    for place, row in enumerate(rows):
        wanted = torch.tensor(row.targets, device=logits.device)[:, None]
        part = logits[place, row.first : row.last + 1].float()
        yield part.log_softmax(-1).gather(1, wanted)[:, 0]
