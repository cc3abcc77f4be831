"""The part of PEFT's `adapter_config.json` that decides what an adapter computes."""

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from lora_evo.errors import LoraEvoError, checked_count, is_number

_OWN = (
    "r", "lora_alpha", "target_modules", "rank_pattern", "alpha_pattern", "use_rslora",
    "base_model_name_or_path",
)  # fmt: skip
# Fields about the writing of the file, not about what the adapter computes.
TARGET_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The linear layers of a Llama-like block, by the last parts of their names."""
_NOT_CONTENT = ("inference_mode", "peft_version")

_WAY_OUT = "fold it into the base model, or train a plain LoRA (linear A and B factors only)"
# Settings under which the update is no longer s*B*A, or lives partly outside the factors.
_REFUSED = {
    "use_dora": "DoRA rescales every row of the merged weight, so s*B*A is not its update",
    "lora_bias": "a bias on lora_B is a part of the update that s*B*A does not show",
    "use_qalora": "QALoRA pools the input, so A does not act on it directly",
    "modules_to_save": "it carries whole trained modules beside the factors",
    "trainable_token_indices": "it carries trained embedding rows beside the factors",
    "target_parameters": "its factors belong to bare parameters, not to modules",
    "use_bdlora": "BD-LoRA factors are block-diagonal, and these operators would fill the blocks",
    "kasa_config": "KaSA has singular values of its own beside the factors",
    "monteclora_config": "MonteCLoRA has random factors beside A and B",
    "velora_config": "VeLoRA changes how A is applied",
    "arrow_config": "Arrow is a router over several adapters, not one adapter",
    "alora_invocation_tokens": "aLoRA acts only behind its own tokens, not on the whole prompt",
    "layer_replication": "it belongs to a model of repeated layers, not to the base that it names",
}
# All other values of `init_lora_weights` (PEFT 0.21: pissa, olora, corda, lora_ga, loftq) may take
# the start out of the base model, so that factors and base belong together.
_BASE_KEPT = (True, False, None, "gaussian", "eva", "orthogonal", "mica")


@dataclass(frozen=True)
class AdapterConfig:
    """A PEFT LoRA configuration.

    `scale(path)` is PEFT's: alpha/r, or alpha/sqrt(r) with `use_rslora`
    (Hu et al. 2021, arXiv 2106.09685; Kalajdzievski 2023, arXiv 2312.03732).

    - rest: every field not named here, verbatim.
    """

    r: int
    lora_alpha: float
    target_modules: tuple[str, ...] | str | None
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)
    use_rslora: bool = False
    base_model_name_or_path: str | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_count("r", self.r)
        _check_alpha("lora_alpha", self.lora_alpha)
        for name, rank in self.rank_pattern.items():
            checked_count(f"rank_pattern[{name!r}]", rank)
        for name, alpha in self.alpha_pattern.items():
            _check_alpha(f"alpha_pattern[{name!r}]", alpha)
        for pattern in (*self.rank_pattern, *self.alpha_pattern):
            _check_regex(pattern)
        if isinstance(self.target_modules, str):
            _check_regex(self.target_modules)
        kind = self.rest.get("peft_type", "LORA")
        if kind != "LORA":
            raise LoraEvoError(f"peft_type is {kind!r}; only 'LORA' adapters can be read")
        if self.rest.get("bias", "none") != "none":
            raise LoraEvoError(
                f"bias is {self.rest['bias']!r}: it carries trained biases beside the factors; "
                f"{_WAY_OUT}"
            )
        for name, why in _REFUSED.items():
            if self.rest.get(name):
                raise LoraEvoError(f"{name} is set: {why}; {_WAY_OUT}")

    @property
    def start_problem(self) -> str | None:
        """Why s*B*A is not what this adapter does to its base, if its start was taken out of it."""
        start = self.rest.get("init_lora_weights")
        if (start.lower() if isinstance(start, str) else start) in _BASE_KEPT:
            return None
        return (
            f"init_lora_weights is {start!r}: this start is taken out of the base model, so "
            "s*B*A is no update of the base that is named; convert a PiSSA, OLoRA, CorDA or "
            "LoRA-GA adapter to a plain LoRA with PEFT: save_pretrained(OUT, "
            "path_initial_model_for_weight_conversion=FOLDER), where FOLDER holds it as it was "
            "before training; any other: merge it in PEFT into its own base and use the "
            "result as a model, or train a plain LoRA"
        )

    @classmethod
    def new(
        cls,
        *,
        r: int,
        lora_alpha: float,
        target_modules: Sequence[str] | str,
        base_model_name_or_path: str | None = None,
        rank_pattern: Mapping[str, int] | None = None,
        alpha_pattern: Mapping[str, float] | None = None,
        use_rslora: bool = False,
    ) -> Self:
        """Return a fresh configuration with the fields that PEFT and vLLM expect."""
        rest = {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "bias": "none",
            "fan_in_fan_out": False,
            "inference_mode": True,
            "init_lora_weights": True,
            "lora_dropout": 0.0,
            "modules_to_save": None,
            "use_dora": False,
        }
        targets = target_modules if isinstance(target_modules, str) else tuple(target_modules)
        patterns = dict(rank_pattern or {}), dict(alpha_pattern or {})
        return cls(r, lora_alpha, targets, *patterns, use_rslora, base_model_name_or_path, rest)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text of an `adapter_config.json`."""
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise LoraEvoError(f"adapter_config.json is not JSON: {error}") from error
        if not isinstance(raw, dict):
            raise LoraEvoError(f"adapter_config.json holds a {type(raw).__name__}, not an object")
        missing = [name for name in ("r", "lora_alpha") if name not in raw]
        if missing:
            raise LoraEvoError(f"adapter_config.json has no field {' and no '.join(missing)}")
        if not isinstance(raw.get("use_rslora") or False, bool):
            raise LoraEvoError(f"use_rslora is {raw['use_rslora']!r}; expected true or false")
        for name in ("rank_pattern", "alpha_pattern"):
            if not isinstance(raw.get(name) or {}, dict):
                raise LoraEvoError(f"{name} is {raw[name]!r}; expected an object, name to number")
        return cls(
            raw["r"],
            raw["lora_alpha"],
            _targets(raw.get("target_modules")),
            raw.get("rank_pattern") or {},
            raw.get("alpha_pattern") or {},
            bool(raw.get("use_rslora")),
            raw.get("base_model_name_or_path"),
            {name: value for name, value in raw.items() if name not in _OWN},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as in the file."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in _OWN}
        fields["rank_pattern"] = dict(self.rank_pattern)
        fields["alpha_pattern"] = dict(self.alpha_pattern)
        if isinstance(self.target_modules, tuple):
            fields["target_modules"] = list(self.target_modules)
        return {**self.rest, **fields}

    def to_json(self) -> str:
        """Return the text of `adapter_config.json`, formatted as PEFT does."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

    def fingerprint(self) -> bytes:
        """Return canonical bytes for hashing, without the order of target modules and the
        writer."""
        fields = self.to_dict()
        for name in _NOT_CONTENT:
            fields.pop(name, None)
        if isinstance(self.target_modules, tuple):
            fields["target_modules"] = sorted(self.target_modules)
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()

    def of_rank(self, rank: int) -> Self:
        """Return this configuration with one rank for all modules, and alpha for the same scale."""
        ratio = rank / self.r
        alpha = self.lora_alpha * (math.sqrt(ratio) if self.use_rslora else ratio)
        return replace(self, r=rank, lora_alpha=alpha, rank_pattern={}, alpha_pattern={})

    def rank(self, path: str) -> int:
        """Return the rank of the module at `path` (rank_pattern first, as PEFT matches it)."""
        key = _matching(self.rank_pattern, path)
        return self.r if key is None else self.rank_pattern[key]

    def alpha(self, path: str) -> float:
        """Return alpha of the module at `path` (alpha_pattern first)."""
        key = _matching(self.alpha_pattern, path)
        return self.lora_alpha if key is None else self.alpha_pattern[key]

    def scale(self, path: str) -> float:
        """Return the factor s in the update s B A of the module at `path`."""
        rank = self.rank(path)
        return float(self.alpha(path)) / (math.sqrt(rank) if self.use_rslora else rank)

    def targets(self, path: str) -> bool:
        """Return whether PEFT would put this adapter on the module at `path`."""
        if self.target_modules is None or self.target_modules == "all-linear":
            return True
        if isinstance(self.target_modules, str):
            return re.fullmatch(self.target_modules, path) is not None
        return any(path == name or path.endswith("." + name) for name in self.target_modules)


def _targets(value: object) -> tuple[str, ...] | str | None:
    """Return `target_modules` of a file: names, one pattern, or nothing."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise LoraEvoError(f"target_modules is {value!r}; expected a list of names")
    return tuple(value)


def check_pair(config: AdapterConfig, path: str, a: Sequence[int], b: Sequence[int]) -> None:
    """Refuse shapes of A and B that are no pair of the configured rank for this module."""
    if len(a) != 2 or len(b) != 2:
        raise LoraEvoError(
            f"{path} has lora_A of shape {list(a)} and lora_B of shape {list(b)}; expected those "
            "of a linear layer: [r, in] and [out, r]"
        )
    if 0 in a or 0 in b:
        raise LoraEvoError(f"{path} is empty: lora_A is {list(a)}, lora_B is {list(b)}")
    if a[0] != b[1]:
        raise LoraEvoError(
            f"the pair of {path} does not fit together: lora_A is {list(a)}, lora_B is {list(b)}; "
            "expected [r, in] and [out, r] with one r"
        )
    if a[0] != config.rank(path):
        raise LoraEvoError(
            f"{path} has rank {a[0]}, but the configuration says {config.rank(path)}; "
            "set r or rank_pattern to what the weights hold"
        )
    if not config.targets(path):
        raise LoraEvoError(
            f"the weights hold {path}, which target_modules does not name; PEFT would drop it "
            "silently: add it to target_modules"
        )


def _matching(patterns: Mapping[str, Any], path: str) -> str | None:
    """Return the first pattern that PEFT's `get_pattern_key` would choose, or None."""
    return next((key for key in patterns if re.match(rf"(.*\.)?({key})$", path)), None)


def _check_alpha(name: str, alpha: object) -> None:
    if not is_number(alpha) or not 0 < alpha <= sys.float_info.max:
        raise LoraEvoError(f"{name} is {alpha!r}; expected a finite number above 0")


def _check_regex(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise LoraEvoError(f"{pattern!r} is not a usable module pattern: {error}") from error
