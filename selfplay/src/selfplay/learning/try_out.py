"""Try a base of an untested family before a run: once, on a few tokens, all that a run does.

A run reads the base with rows of several adapters in one batch, samples from it, takes a gradient,
and saves members that PEFT loads. Where one of these fails, or gives other numbers than a plain
pass, the run would fail in its middle, or train another model than it says.
"""

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from lora_evo import save_adapter
from lora_evo.model import (
    BASE,
    TESTED_FAMILIES,
    BaseModel,
    HFEngine,
    Request,
    Rollout,
    derive_seed,
    linear_shapes,
    stream,
)
from selfplay.errors import SelfplayError, first_line
from selfplay.learning.batch import TrainingSample, batch_rows
from selfplay.learning.learner import Learner
from selfplay.learning.statistics import StatsSum

_TOKENS = 20
"""Tokens of a row: enough for the products by member, and for a short convolution."""
_TOLERANCE = {torch.float32: 5e-3}
_HALF = 0.25
"""Difference of logits that rounding explains, in standard deviations of the logits, by number
type; `_HALF` for the others."""
_NOISE = 0.2


def usable_targets(model: Any) -> dict[str, int]:
    """Return how many linear layers of each last name get [rows, tokens, features].

    Layers that a family calls with rows and tokens flattened, such as those of experts, are left
    out: they do not tell whose tokens they get. So is the output layer.
    """
    shapes: dict[str, set[bool]] = defaultdict(set)

    def note(name: str, _: Any, inputs: tuple[Tensor, ...]) -> None:
        shapes[name].add(inputs[0].shape[:-1] == (2, _TOKENS))

    output = model.get_output_embeddings()
    layers = [
        (path.rpartition(".")[2], module)
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not output
    ]
    handles = [m.register_forward_pre_hook(partial(note, name)) for name, m in layers]
    try:
        with torch.no_grad():
            model(input_ids=_ids(model, 2), use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    return Counter(name for name, _ in layers if shapes[name] == {True})


def check_targets(base: BaseModel, targets: Sequence[str]) -> None:
    """Raise SelfplayError where the base has no layers of these names that adapters can be put on.

    Names of a tested family are only looked up; another family's layers are called once.
    """
    model, family = base.model, base.model.config.model_type
    names = {path.rpartition(".")[2] for path in linear_shapes(model)}
    if family in TESTED_FAMILIES and names >= set(targets):
        return
    try:
        usable = usable_targets(model)
    except Exception as error:  # whatever a family's own code raises
        raise SelfplayError(
            f"{base.name} is a {family}, which cannot be trained here: it does not read a plain "
            f"batch of tokens: {first_line(error)}"
        ) from error
    if not usable:
        raise SelfplayError(
            f"{base.name} is a {family}, which cannot be trained here: none of its layers is a "
            "linear one that gets rows of tokens"
        )
    if odd := [name for name in targets if name not in usable]:
        layers = ", ".join(f"{name} ({count})" for name, count in usable.items())
        raise SelfplayError(
            f"{base.name} is a {family}, and learner.target_modules names {', '.join(odd)}: "
            f"expected some of its linear layers that get rows of tokens: {layers}; type: "
            f"--set 'learner.target_modules=[{','.join(usable)}]'"
        )


def try_out(learner: Learner, tokenizer: Any) -> None:
    """Do once all that a run does, with members that differ; they are as before afterwards.

    Raises SelfplayError with the family, what failed, and the setting, in one line.
    """
    model = learner.model
    if model.config.model_type in TESTED_FAMILIES:
        return
    trial = _Trial(learner, tokenizer)
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("a batch with rows of several adapters", trial.route),
        ("sampling", trial.sample),
        ("a gradient", trial.learn),
        ("an exported member in PEFT", trial.export),
    )
    with _different(learner):
        for words, step in steps:
            try:
                step()
            except Exception as error:  # whatever a family's own code raises
                raise SelfplayError(
                    f"{learner.base_model or 'the base'} is a {model.config.model_type}, which "
                    f"cannot be trained here: {words}: {first_line(error)}; "
                    f"learner.target_modules is {', '.join(learner.config.target_modules)}"
                ) from error


@dataclass(frozen=True)
class _Trial:
    learner: Learner
    tokenizer: Any

    @property
    def rows(self) -> list[int]:
        """Two members, where there are two, and the base."""
        return [0, len(self.learner.members) - 1, BASE]

    @torch.no_grad()
    def route(self) -> None:
        """Each row of a mixed batch gives what it gives alone, and members are not the base."""
        together = self._logits(self.rows)
        for i, member in enumerate(self.rows):
            alone = self._logits([member] * 3)[i]
            _compare(together[i], alone, alone, "alone and in a batch")
        cut = _TOKENS // 2
        begun = self._logits(self.rows, cut)
        _compare(begun, together[:, :cut], begun, "with and without what comes later")
        if torch.equal(together[0], self._logits([BASE] * 3)[0]):
            raise SelfplayError("an adapter changes nothing")

    @torch.no_grad()
    def sample(self) -> None:
        """Rows that begin and end at different times have the probabilities of a plain pass."""
        learner, ids = self.learner, _ids(self.learner.model, 1)[0].tolist()
        engine = HFEngine(learner.adapters, self.tokenizer, max_rows=3)
        names = [None if m == BASE else learner.members[m] for m in self.rows]
        requests = [
            Request(tuple(ids[: 3 + 2 * (i % 4)]), names[i % 3], 2 + i, temperature=1.0, seed=i)
            for i in range(6)
        ]
        for request, rollout in zip(requests, engine.generate(requests), strict=True):
            text = torch.tensor([rollout.prompt_ids + rollout.completion_ids])
            with learner.adapters.route([learner.adapters.index(request.adapter)]):
                logits = learner.model(input_ids=text.to(learner.adapters.device)).logits
            logprobs = torch.log_softmax(logits[0].float(), -1)
            places = torch.arange(len(request.prompt_ids) - 1, text.shape[1] - 1)
            expected = logprobs[places, list(rollout.completion_ids)]
            sampled = torch.tensor(rollout.logprobs, device=expected.device)
            _compare(sampled, expected, logits[0], "with and without a cache")

    def learn(self) -> None:
        """One backward pass gives every member a gradient."""
        learner, ids = self.learner, tuple(_ids(self.learner.model, 1)[0].tolist())
        cut = len(ids) // 2
        samples = [
            TrainingSample(
                member, Rollout(member, ids[:cut], ids[cut:], (-1.0,) * cut, "stop", ""), 1
            )
            for member in dict.fromkeys((learner.members[0], learner.members[-1]))
        ]
        rows = batch_rows(samples, learner.members, learner.config, len(ids))
        try:
            learner.backward(rows, {row.member: StatsSum() for row in rows})
            for row in rows:
                grads = [p.grad for p in learner.adapters.parameters_of(row.member).values()]
                norm = sum(float(g.float().square().sum()) for g in grads if g is not None)
                if not 0.0 < norm < math.inf:
                    raise SelfplayError(f"its squared norm is {norm}")
        finally:
            learner.optimizer.zero_grad()

    def export(self) -> None:
        """A saved member is the same model in PEFT, where PEFT is installed."""
        if find_spec("peft") is None:
            return
        import peft

        learner = self.learner
        with torch.no_grad(), TemporaryDirectory(prefix="populab-try-") as home:
            expected = self._logits([0, 0, 0])
            save_adapter(learner.export(learner.members[0]), Path(home) / "member")
            with learner.adapters.set_aside() as base:
                with warnings.catch_warnings(action="ignore"):
                    twin = peft.PeftModel.from_pretrained(base, Path(home) / "member").eval()
                adapted = {n for n, module in twin.named_modules() if hasattr(module, "lora_A")}
                try:
                    logits = twin(input_ids=_ids(base, 3), use_cache=False).logits
                finally:
                    twin.unload()
            lost = {
                path.rpartition(".")[2]
                for path in learner.adapters.layers
                if f"base_model.model.{path}" not in adapted
            }
            if lost:
                raise SelfplayError(f"PEFT puts none on {', '.join(sorted(lost))}: leave them out")
            _compare(logits, expected, expected, "in PEFT and here")

    def _logits(self, rows: list[int], tokens: int = _TOKENS) -> Tensor:
        learner = self.learner
        ids = _ids(learner.model, len(rows))[:, :tokens]
        with learner.adapters.route(rows):
            logits: Tensor = learner.model(input_ids=ids, use_cache=False).logits
        return logits


def _ids(model: Any, rows: int) -> Tensor:
    """Return [rows, _TOKENS] different tokens, the same in every row."""
    device = model.get_input_embeddings().weight.device
    size = model.get_input_embeddings().weight.shape[0]
    row = torch.arange(3, 3 + _TOKENS, device=device) % size
    ids: Tensor = row.expand(rows, -1).contiguous()
    return ids


def _compare(values: Tensor, expected: Tensor, spread: Tensor, words: str) -> None:
    """Raise SelfplayError for values further apart than rounding explains.

    spread: the logits that they come from; their standard deviation is the unit.
    """
    tolerance = _TOLERANCE.get(spread.dtype, _HALF)
    error = float((values.float() - expected.float()).abs().max() / spread.float().std(-1).max())
    if not error <= tolerance:
        raise SelfplayError(f"its logits {words} differ by {error:.1%} of their spread")


@contextmanager
def _different(learner: Learner) -> Iterator[None]:
    """Give the first and the last member a B of noise inside the block, zeros afterwards."""
    members = sorted({0, len(learner.members) - 1})
    parameters = [
        p for m in members for n, p in learner.adapters.parameters_of(m).items() if n[-1] == "B"
    ]
    with torch.no_grad():
        for i, p in enumerate(parameters):
            noise = stream(derive_seed(0, "try_out", i)).uniform(-_NOISE, _NOISE, tuple(p.shape))
            p.copy_(torch.from_numpy(noise))
    try:
        yield
    finally:
        with torch.no_grad():
            for p in parameters:
                p.zero_()
