"""The part of PEFT's `adapter_config.json` that decides what an adapter computes."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypeVar

from lora_evo.errors import LoraEvoError, checked_count, is_number
from lora_evo.peft.names import everywhere

TARGET_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The linear layers of a Llama-like block, by the last parts of their names."""
# Fields that do not change what the adapter computes.
_NOT_CONTENT = ("inference_mode", "peft_version")

PLAIN = "train a plain LoRA (linear A and B factors only)"
MERGE = f"merge it into its base in PEFT (merge_and_unload) and use that model, or {PLAIN}"
# Settings with which the update is not s*B*A, or not only in the factors: those that PEFT can merge
# into the base, and those that it cannot.
_MERGEABLE = (
    "use_dora", "lora_bias", "modules_to_save", "trainable_token_indices", "use_bdlora",
    "kasa_config", "velora_config",
)  # fmt: skip
_NOT_MERGEABLE = (
    "use_qalora", "monteclora_config", "arrow_config", "alora_invocation_tokens",
    "layer_replication",
)  # fmt: skip
# PEFT's regular expressions for `rank_pattern` and `alpha_pattern`, and for `layers_pattern`.
_PATTERN = r"(.*\.)?({})$"
_LAYER_OF = r"(?:^|.*?\.){}\.(?P<idx>\d+)\."
_ANY_LAYER = r".*?\.[^.]*\.(?P<idx>\d+)\."
_LARGEST = 1e30
_KINDS = {"use_rslora": bool, "rank_pattern": dict, "alpha_pattern": dict}
_Number = TypeVar("_Number", int, float)
_LAYERS = ("layers_to_transform", "layers_pattern")
_FILTERS = ("exclude_modules", *_LAYERS)
IN_ORDER = ("gate_up_proj", "down_proj")
"""Bare parameters in the models' order, in which PEFT wraps their module."""
# All other values of `init_lora_weights` (PEFT 0.21: pissa, olora, corda, lora_ga, loftq) may
# subtract the initial update from the base, so that the adapter needs that changed base.
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
        patterns = [(p, _PATTERN.format(p)) for p in (*self.rank_pattern, *self.alpha_pattern)]
        patterns += [(pattern, _LAYER_OF.format(pattern)) for pattern in self._layers_patterns()]
        wholes = self.target_modules, self.rest.get("exclude_modules")
        for name, pattern in (*patterns, *((p, p) for p in wholes if isinstance(p, str))):
            try:
                re.compile(pattern)
            except re.error as error:
                raise LoraEvoError(f"{name!r} is not a usable module pattern: {error}") from error
        odd = [name for name in (*_MERGEABLE, *_NOT_MERGEABLE) if self.rest.get(name)]
        if self.rest.get("bias", "none") != "none":
            odd = ["bias"]
        if odd:
            raise LoraEvoError(
                f"{odd[0]} is set, so that scale * B @ A is not the whole update of the adapter; "
                f"{PLAIN if odd[0] in _NOT_MERGEABLE else MERGE}"
            )
        start = self.rest.get("init_lora_weights")
        if (start.lower() if isinstance(start, str) else start) not in _BASE_KEPT:
            raise LoraEvoError(
                f"init_lora_weights is {start!r}: PEFT subtracts this start from the base, so "
                "that s*B*A is not an update of it; convert it in PEFT: save_pretrained(OUT, "
                f"path_initial_model_for_weight_conversion=FOLDER_BEFORE_TRAINING); or {MERGE}"
            )
        layers = self.rest.get("layers_to_transform")
        listed = layers if isinstance(layers, list) else [0 if layers is None else layers]
        if not all(isinstance(layer, int) for layer in listed):
            raise LoraEvoError(f"layers_to_transform is {layers!r}; expected numbers of layers")
        either = [name for name in _LAYERS if self.rest.get(name) is not None]
        alone = layers is None and self._layers_patterns()
        if alone or (either and isinstance(self.target_modules, str)):
            raise LoraEvoError(
                f"{either[0]} is set, which PEFT refuses with a pattern as target_modules, and "
                "without layers_to_transform: make it null"
            )

    def _layers_patterns(self) -> Sequence[str]:
        patterns = self.rest.get("layers_pattern") or ()
        return (patterns,) if isinstance(patterns, str) else _names("layers_pattern", patterns)

    @classmethod
    def new(
        cls, *, r: int, lora_alpha: float, target_modules: Sequence[str] | str, **fields: Any
    ) -> Self:
        """Return a fresh configuration with the further fields that PEFT and vLLM expect."""
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
        return cls(r, lora_alpha, targets, rest=rest, **fields)

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise LoraEvoError(f"adapter_config.json is not JSON: {error}") from error
        if not isinstance(raw, dict):
            raise LoraEvoError(f"adapter_config.json holds a {type(raw).__name__}, not an object")
        kind = raw.get("peft_type", "LORA")
        if kind != "LORA":
            raise LoraEvoError(f"peft_type is {kind!r}; only LORA adapters can be read: {PLAIN}")
        if missing := [name for name in ("peft_type", "r", "lora_alpha") if name not in raw]:
            raise LoraEvoError(f"adapter_config.json has no field {' and no '.join(missing)}")
        for name, kind in _KINDS.items():
            raw[name] = raw.get(name) or kind()
            if not isinstance(raw[name], kind):
                raise LoraEvoError(f"{name} is {raw[name]!r}; expected a {kind.__name__}")
        for name in ("target_modules", "exclude_modules", "target_parameters"):
            if raw.get(name) is not None and not isinstance(raw[name], str):
                _names(name, raw[name])
        names = {one.name for one in fields(cls)} - {"rest"}
        values = {name: raw.pop(name, None) for name in names}
        if isinstance(values["target_modules"], list):
            values["target_modules"] = tuple(values["target_modules"])
        return cls(**values, rest=raw)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as in the file."""
        values = {name: value for name, value in vars(self).items() if name != "rest"}
        values |= {name: dict(values[name]) for name in ("rank_pattern", "alpha_pattern")}
        if isinstance(self.target_modules, tuple):
            values["target_modules"] = list(self.target_modules)
        return dict(sorted({**self.rest, **values}.items()))

    def to_json(self) -> str:
        """Return the text of `adapter_config.json`. The first matching pattern takes precedence."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def fingerprint(self) -> bytes:
        """Return canonical bytes for hashing, without PEFT's version and the order of targets."""
        values = {name: v for name, v in self.to_dict().items() if name not in _NOT_CONTENT}
        for name in ("target_modules", "target_parameters"):
            if isinstance(values.get(name), list):
                values[name] = sorted(values[name])
        for name in ("rank_pattern", "alpha_pattern"):  # whose order counts
            if list(values[name]) != sorted(values[name]):
                values[name] = list(values[name].items())
        return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()

    def of_rank(self, rank: int) -> Self:
        """Return this configuration with one rank for all modules, and alpha for an equal scale."""
        ratio = rank / self.r
        alpha = self.lora_alpha * (math.sqrt(ratio) if self.use_rslora else ratio)
        start = str(self.rest.get("init_lora_weights")).lower()  # PEFT reads MiCA as mica
        # PEFT makes these starts, to load weights over them, for even ranks and narrow ones alone.
        unfit = start == "mica" or (start == "orthogonal" and rank % 2)
        rest = {**self.rest, "init_lora_weights": True} if unfit else self.rest
        return replace(self, r=rank, lora_alpha=alpha, rank_pattern={}, alpha_pattern={}, rest=rest)

    def on(self, paths: Iterable[str], parameters: Iterable[str] = ()) -> Self:
        """Return this configuration for exactly these modules and slots of bare parameters, by
        names that every version of transformers has."""
        rest = {**self.rest, **{n: None for n in _FILTERS if n in self.rest}}
        keys = {name for p in parameters for name in everywhere(p.rpartition(".")[0])}
        if keys or "target_parameters" in rest:
            rest["target_parameters"] = sorted(keys)
        names = {name for path in set(paths) - set(parameters) for name in everywhere(path)}
        return replace(self, target_modules=tuple(sorted(names)), rest=rest)

    def joined(self, others: Iterable["AdapterConfig"]) -> Self | None:
        """Return this configuration with the targets of others, too, in their own words; None if
        one has a pattern or filters."""
        configs: list[AdapterConfig] = [self, *others]
        if any(
            isinstance(c.target_modules, str) or any(map(c.rest.get, _FILTERS)) for c in configs
        ):
            return None
        names = {name for c in configs for name in c.target_modules or ()}
        keys = {key for c in configs for key in c.rest.get("target_parameters") or ()}
        rest = {**self.rest, **({"target_parameters": sorted(keys)} if keys else {})}
        return replace(self, target_modules=tuple(sorted(names)), rest=rest)

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this configuration for exactly these modules, with new names by old ones."""
        experts = {new for old, new in names.items() if self.parameter(old)}
        settings = {new.rpartition(".")[0] if new in experts else new: old
                    for old, new in names.items()}  # fmt: skip
        words = {
            rf"^(?:model\.)?(?:{'|'.join(map(re.escape, everywhere(new)))})": old
            for new, old in settings.items()
        }
        ranks = {word: self.rank(old) for word, old in words.items()}
        alphas = {word: self.alpha(old) for word, old in words.items()}
        whole = self.on(names.values(), experts)
        return replace(whole, rank_pattern=ranks, alpha_pattern=alphas)

    def unmatched(self, paths: Sequence[str]) -> list[str]:
        """Return the settings, such as `rank_pattern 'x'`, that match none of these modules."""
        targets = self.target_modules if isinstance(self.target_modules, tuple) else ()
        paths = [self.parameter(path) or path for path in paths]
        ends = {name for path in paths for name in everywhere(path)}
        ends |= {path[dot.end() :] for path in paths for dot in re.finditer(r"^|\.", path)}
        odd = [f"target_modules {name!r}" for name in targets if name not in ends]
        for name in ("rank_pattern", "alpha_pattern"):
            for pattern in getattr(self, name):
                fits = re.compile(_PATTERN.format(pattern)).match
                if pattern not in ends and not any(map(fits, paths)):
                    odd.append(f"{name} {pattern!r}")
        return odd

    def parameter(self, path: str) -> str | None:
        """Return the bare parameter of an expert's slot at `path`, such as `experts.down_proj.7`;
        None for the slot of a module."""
        key, _, number = path.rpartition(".")
        targets = self.rest.get("target_parameters") or ()
        return key if targets and number.isdecimal() and _ends(key, targets) else None

    def parameters_of(self, module: str, count: int) -> list[str]:
        """Return the `count` adapted bare parameters of a module in the model's order."""
        names = [name.rpartition(".") for name in self.rest.get("target_parameters") or ()]
        full = {f"{module}.{last}" for before, _, last in names
                if before and f".{module}".endswith(f".{before}")}  # fmt: skip
        short = {f"{module}.{last}" for before, _, last in names if not before}
        keys = full if len(full) == count else full | short
        if len(keys) != count:
            raise LoraEvoError(
                f"{module} has factors of {count} parameters, of which target_parameters names "
                f"{len(keys)}; name each as MODULE.PARAMETER"
            )
        return _in_order(keys)

    def wrappers(self, paths: Iterable[str]) -> dict[str, str]:
        """Return PEFT's name of the module that wraps a bare parameter in a file, by parameter."""
        modules: dict[str, set[str]] = {}
        for key in filter(None, map(self.parameter, paths)):
            modules.setdefault(key.rpartition(".")[0], set()).add(key)
        return {
            key: module + ".base_layer" * depth
            for module, keys in modules.items()
            for depth, key in enumerate(reversed(_in_order(keys)))
        }

    def rank(self, path: str) -> int:
        return self._setting(path, self.rank_pattern, self.r)

    def alpha(self, path: str) -> float:
        return self._setting(path, self.alpha_pattern, self.lora_alpha)

    def scale(self, path: str) -> float:
        """Return the factor s in the update s B A of the module at `path`."""
        rank = self.rank(path)
        return self.alpha(path) / (math.sqrt(rank) if self.use_rslora else rank)

    def _setting(self, path: str, patterns: Mapping[str, _Number], default: _Number) -> _Number:
        if not self.adapts(path):
            filters = [n for n in _FILTERS if self.rest.get(n) is not None]
            raise LoraEvoError(
                f"the weights hold {path}, which the configuration leaves out; PEFT would drop it "
                f"silently: name it in target_modules{''.join(f', make {n} null' for n in filters)}"
            )
        name = self.parameter(path) or path
        fits = (value for key, value in patterns.items() if re.match(_PATTERN.format(key), name))
        return next(fits, default)

    def adapts(self, path: str) -> bool:
        """Return whether PEFT 0.21 adapts the module at `path`; `all-linear`: all but lm_head."""
        if self.parameter(path):
            return True
        targets, excluded = self.target_modules, self.rest.get("exclude_modules")
        if excluded and (
            re.fullmatch(excluded, path) if isinstance(excluded, str) else _ends(path, excluded)
        ):
            return False
        if targets is None:  # PEFT then chooses by the base model
            return False
        if isinstance(targets, str):
            if targets.lower() == "all-linear":
                return path != "lm_head"
            return re.fullmatch(targets, path) is not None
        layers = self.rest.get("layers_to_transform")
        if path in targets or layers is None or layers == []:
            return _ends(path, targets)
        patterns = [_LAYER_OF.format(pattern) for pattern in self._layers_patterns()]
        matches = (re.match(pattern, path) for pattern in patterns or [_ANY_LAYER])
        if not (match := next(filter(None, matches), None)) or not _ends(path, targets):
            return False
        return int(match["idx"]) in (layers if isinstance(layers, list) else [layers])


def _names(name: str, value: object) -> Sequence[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise LoraEvoError(f"{name} is {value!r}; expected a list of names")
    return value


def _in_order(keys: Iterable[str]) -> list[str]:
    """Return bare parameters of one module in the model's order."""
    names = {key.rpartition(".")[2]: key for key in sorted(keys)}
    if len(names) > 1 and (odd := names.keys() - set(IN_ORDER)):
        raise LoraEvoError(
            f"target_parameters names {names[min(odd)]} and others of its module, whose order is "
            f"not known; expected {', '.join(IN_ORDER)}: {MERGE}"
        )
    return [names[name] for name in IN_ORDER if name in names] or list(names.values())


def _ends(path: str, names: Sequence[str]) -> bool:
    return path in names or any(path.endswith(f".{name}") for name in names)


def older(version: object, *least: int) -> bool:
    """Return whether a version, such as `0.18.1`, is older; one that is not known is."""
    return tuple(map(int, re.findall(r"\d+", str(version))))[: len(least)] < least


def check_pair(config: AdapterConfig, path: str, a: Sequence[int], b: Sequence[int]) -> None:
    """Raise `LoraEvoError` for shapes of A and B that do not fit together and the module's rank."""
    if len(a) != 2 or len(b) != 2 or a[0] != b[1]:
        raise LoraEvoError(
            f"lora_A of {path} is {list(a)} and lora_B {list(b)}; expected those of a linear "
            "layer: [r, in] and [out, r]"
        )
    if a[0] != config.rank(path):
        raise LoraEvoError(
            f"{path} has rank {a[0]}, but the configuration says {config.rank(path)}; "
            "set r or rank_pattern to what the weights hold"
        )


def _check_alpha(name: str, alpha: object) -> None:
    if not is_number(alpha) or not 1 / _LARGEST <= alpha <= _LARGEST:
        raise LoraEvoError(f"{name} is {alpha!r}; expected a number above 0, up to {_LARGEST:g}")
