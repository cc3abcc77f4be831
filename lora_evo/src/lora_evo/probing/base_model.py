"""A base model on which adapters are put on and taken off by hooks, without merging."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from lora_evo.errors import LoraEvoError
from lora_evo.files.adapter import Adapter
from lora_evo.files.directory import PathLike

_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, eq=False)
class LoraDelta:
    """An update ready to use on a device: x [..., in] to s*B*A*x [..., out], in float32."""

    down: torch.Tensor
    up: torch.Tensor
    scale: float

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """s*B*A*x; whole numbers in x are rows of an embedding."""
        inner = x.float() @ self.down.T if x.is_floating_point() else self.down.T[x]
        return self.scale * (inner @ self.up.T)


@dataclass(eq=False)
class Tally:
    """Sums of squares over all real tokens: of D'x - Dx and of Dx."""

    difference: float = 0.0
    parent: float = 0.0


@dataclass(frozen=True, eq=False)
class BaseModel:
    """A causal language model with its tokenizer, in evaluation mode."""

    model: Any
    tokenizer: Any
    device: torch.device

    @property
    def vocabulary(self) -> int:
        """How many tokens have an embedding."""
        return int(self.model.get_input_embeddings().weight.shape[0])

    @property
    def context(self) -> int | None:
        """The longest row the model reads, where it says so."""
        longest = getattr(self.model.config, "max_position_embeddings", None)
        return longest if isinstance(longest, int) and longest > 0 else None

    def logits(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """[rows, positions, vocabulary] for token ids and their mask, both [rows, positions]."""
        found: torch.Tensor = self.model(
            input_ids=ids, attention_mask=mask, use_cache=False, return_dict=True
        ).logits
        return found

    def deltas(self, adapter: Adapter, name: str) -> dict[str, LoraDelta]:
        """The adapter's updates on this model's device; refuses an adapter of another model."""
        found = {}
        for path in adapter.paths:
            slot = adapter.slot(path)
            self._check(path, (slot.A.shape[1], slot.B.shape[0]), name)
            down, up = (half.detach().to(self.device, torch.float32) for half in (slot.A, slot.B))
            found[path] = LoraDelta(down, up, slot.scale)
        return found

    @contextmanager
    def applied(
        self,
        updates: Mapping[str, LoraDelta],
        other: Mapping[str, LoraDelta] | None = None,
        tallies: Mapping[str, Tally] | None = None,
        mask: torch.Tensor | None = None,
    ) -> Iterator[None]:
        """Add the updates to their modules' outputs inside; count what `other` would do there."""

        def add(path: str, _module: object, inputs: tuple[torch.Tensor, ...], output: Any) -> Any:
            change = updates[path](inputs[0])
            if other is not None and tallies is not None and mask is not None:
                count_change(tallies[path], change, other[path](inputs[0]) - change, mask)
            return output + change.to(output.dtype)

        with ExitStack() as stack:
            for path in updates:
                module = self.model.get_submodule(path)
                stack.callback(module.register_forward_hook(partial(add, path)).remove)
            yield

    def _check(self, path: str, wanted: tuple[int, int], name: str) -> None:
        try:
            module = self.model.get_submodule(path)
        except AttributeError as error:
            raise LoraEvoError(
                f"{name} sits on {path}, which the model does not have; give --model the base "
                "that the adapter was trained on"
            ) from error
        ends = _ends(module)
        if ends is None:
            raise LoraEvoError(
                f"{path} is a {type(module).__name__}; a probe can only run adapters on linear "
                "and embedding layers: compare by weights, without --model"
            )
        if ends != wanted:
            raise LoraEvoError(
                f"{name} maps {wanted[0]} to {wanted[1]} at {path}, the model {ends[0]} to "
                f"{ends[1]}; give --model the base that the adapter was trained on"
            )


def open_base(folder: PathLike, *, device: str = "auto", dtype: str = "float32") -> BaseModel:
    """Load a model and its tokenizer from a folder; nothing is ever downloaded.

    `device`: "auto" (a CUDA device where there is one), or what torch calls it. Raises
    `LoraEvoError` without transformers, and for a folder that transformers cannot load.
    """
    if dtype not in _TYPES:
        raise LoraEvoError(f"dtype is {dtype!r}; expected one of {', '.join(_TYPES)}")
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise LoraEvoError(
            f"probing a model needs transformers ({error}); "
            'install it by: pip install "populab-lora-evo[probe]"'
        ) from error
    place = Path(folder)
    if not (place / "config.json").is_file():
        raise LoraEvoError(f"{place} has no config.json; expected a folder with a base model")
    try:
        where = torch.device(
            ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        )
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError) as error:
        first = str(error).partition("\n")[0]
        raise LoraEvoError(f"device {device!r} cannot be used here: {first}") from error
    try:
        with _quiet():
            tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
            model, report = AutoModelForCausalLM.from_pretrained(
                place, local_files_only=True, dtype=_TYPES[dtype], output_loading_info=True
            )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise LoraEvoError(f"{place}: transformers cannot load the model: {error}") from error
    absent = sorted(report["missing_keys"])
    if absent:
        raise LoraEvoError(
            f"{place} lacks {len(absent)} weights of its model, for example {absent[0]}; expected "
            "a whole base model"
        )
    return BaseModel(model.to(where).eval().requires_grad_(False), tokenizer, where)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the notes and bars of transformers, which would stand among our own lines."""
    from transformers.utils import logging

    verbosity, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()


def _ends(module: torch.nn.Module) -> tuple[int, int] | None:
    """Inputs and outputs of a layer that maps the last dimension linearly, else None."""
    if isinstance(module, torch.nn.Linear):
        return module.in_features, module.out_features
    if isinstance(module, torch.nn.Embedding):
        return module.num_embeddings, module.embedding_dim
    if type(module).__name__ == "Conv1D":
        inputs, outputs = cast(torch.Tensor, module.weight).shape
        return int(inputs), int(outputs)
    return None


def count_change(
    tally: Tally, change: torch.Tensor, difference: torch.Tensor, mask: torch.Tensor
) -> None:
    """Add the squares of the real tokens; all rows count where tokens were sorted otherwise."""
    if change[..., 0].numel() == mask.numel():
        real = mask.reshape(-1).bool()
        change = change.reshape(len(real), -1)[real]
        difference = difference.reshape(len(real), -1)[real]
    tally.parent += float(change.double().square().sum())
    tally.difference += float(difference.double().square().sum())
