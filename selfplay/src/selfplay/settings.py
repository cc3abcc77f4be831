"""Settings from YAML: presets, files and `--set`, typed by msgspec, with errors that help.

A preset, or a user's file, may begin with `extends: PRESET`, and then holds only the differences.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec import Meta

from selfplay.errors import ConfigError

Count = Annotated[int, Meta(ge=0)]
AtLeastOne = Annotated[int, Meta(ge=1)]
Temperature = Annotated[float, Meta(ge=0.01, le=100)]
"""Logits divided by less would overflow; divided by more, all tokens would be equally likely."""
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]

T = TypeVar("T")
_ALIASES = {
    "base": "model base_model model_name model_name_or_path model_path",
    "dtype": "bf16 fp16 torch_dtype precision",
    "engine": "use_vllm backend",
    "learner.beta": "kl kl_beta kl_coef kl_loss_coef",
    "learner.entropy_coef": "entropy ent_coef entropy_coeff",
    "learner.epsilon": "clip clip_range clip_ratio epsilon_low",
    "learner.epsilon_high": "clip_ratio_high",
    "learner.learning_rate": "lr actor_lr",
    "learner.lora_alpha": "alpha",
    "learner.loss_type": "loss algorithm",
    "learner.lr_scheduler_type": "scheduler lr_scheduler lr_schedule",
    "learner.max_grad_norm": "grad_clip gradient_clipping clip_grad_norm",
    "learner.micro_batch_tokens": "per_device_train_batch_size micro_batch_size mini_batch_size "
    "gradient_accumulation_steps",
    "learner.r": "rank lora_rank lora_r",
    "learner.warmup_steps": "warmup_ratio lr_warmup_steps",
    "load_in_4bit": "quantization bnb qlora",
    "report_to": "logger loggers wandb tensorboard",
    "rollout.max_completion_length": "max_tokens max_new_tokens max_length max_response_length",
    "rollout.num_generations": "n group_size num_samples",
    "rollout.proposals or learner.micro_batch_tokens": "batch batch_size train_batch_size",
    "save_every": "save_steps save_freq",
    "steps": "max_steps num_steps num_train_epochs epochs total_epochs iterations",
    "warm_start": "adapter adapter_path lora_path",
}
"""By key: its names in PEFT, TRL and verl, and other usual ones."""
_ALGORITHMS = ("gspo", "gmpo", "dppo", "srpo")
"""Other losses, one letter away from ours."""


def preset_text(name: str) -> str:
    """Return the text of a preset's YAML file."""
    presets = shipped("presets")
    if name not in list(presets):  # `extends` of a YAML file may be anything, also a list
        raise ConfigError(f"there is no preset or file {name!r}; {one_of(name, list(presets))}")
    return presets[name]


@cache
def shipped(folder: Literal["presets", "plans"]) -> dict[str, str]:
    """Return the YAML files that come with the package, by name; the first line is a summary."""
    paths = (p for p in (files("selfplay") / folder).iterdir() if p.name.endswith(".yaml"))
    return dict(sorted((p.name.removesuffix(".yaml"), p.read_text()) for p in paths))


def read_preset(name: str) -> dict[str, Any]:
    """Return a preset, or a YAML file, as nested plain values."""
    is_file = name not in shipped("presets") and Path(name).is_file()
    return extend_preset(read_yaml(Path(name)) if is_file else yaml.safe_load(preset_text(name)))


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds a mapping. Raises ConfigError for any other."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {path} as YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path} is not a mapping of configuration keys")
    return data


def extend_preset(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration merged over the preset that its `extends` names, if any."""
    values = dict(data)
    name = values.pop("extends", None)
    if name is None:
        return values
    return merge_settings(extend_preset(yaml.safe_load(preset_text(name))), values)


def merge_settings(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both mappings merged, with nested sections; values of `above` take precedence."""
    union = {**below, **above}
    for name, section in above.items():
        if isinstance(section, Mapping) and isinstance(below.get(name), Mapping):
            union[name] = merge_settings(below[name], section)
    return union


def assignment(text: str) -> tuple[str, Any]:
    """Return key and value, read as YAML, of `a.b=value`. Raises ConfigError for any other text."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {text!r}: expected KEY=VALUE, such as learner.r=16")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {key}: cannot read {value!r} as a value") from error


def put(data: dict[str, Any], key: str, value: object) -> None:
    """Set the value at a dotted key of nested plain values; missing sections are added."""
    *parents, last = key.split(".")
    for name in parents:
        data = data.setdefault(name, {})
        if not isinstance(data, dict):
            raise ConfigError(f"--set {key}: {name} is a value, not a section")
    data[last] = value


def read_settings(data: object, kind: type[T]) -> T:
    """Build a frozen dataclass, and the sections in it, from plain values such as YAML's.

    A text for a list is split at commas. Raises ConfigError that names the key, its value and the
    expected kind.
    """
    plain = _check(data, kind, "", kind)
    try:
        return msgspec.convert(plain, kind, strict=False)  # YAML takes 1e-4 for a text
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(error, plain)) from error


def _check(data: Any, kind: Any, key: str, whole: type) -> Any:
    """Split texts for lists; refuse values that msgspec accepts: unknown keys, nan and inf."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    section = next((part for part in parts if is_dataclass(part)), None)
    if isinstance(data, Mapping) and section is not None:
        hints, before = get_type_hints(section), f"{key}." if key else ""
        for name, value in data.items():
            if name not in hints:
                keys = {hint: f"{before}{hint}" for hint in hints}
                raise _unknown(f"{before}{name}", value, keys, whole)
        return {n: _check(value, hints[n], f"{before}{n}", whole) for n, value in data.items()}
    lists = (get_args(part) for part in parts if get_origin(part) is tuple)
    item = next((items[0] for items in lists if items[-1] is Ellipsis), None)
    if item is not None and isinstance(data, str) and (str not in parts or "," in data):
        data = [text.strip() for text in data.strip("[]").split(",")]
    if item is not None and isinstance(data, list):
        return [_check(value, item, f"{key}[{i}]", whole) for i, value in enumerate(data)]
    choices = [c for part in parts if get_origin(part) is Literal for c in get_args(part)]
    if choices and data not in choices:
        raise ConfigError(f"{key} is {data!r}; {one_of(data, choices)}")
    if float in parts and not _is_finite(data):
        raise ConfigError(f"{key} is {data}; expected a finite number")
    return data


def _is_finite(data: Any) -> bool:
    try:
        return math.isfinite(float(data))
    except (TypeError, ValueError):  # not a number: an error of msgspec
        return True


def _unknown(key: str, value: object, section: Mapping[str, str], whole: type) -> ConfigError:
    """Return the error of an unknown key, with the one probably meant.

    section: full keys of the key's section by last name; whole: the dataclass of all settings.
    """
    while isinstance(value, Mapping) and value:
        inner, value = next(iter(value.items()))
        key = f"{key}.{inner}"
    keys = dict(section)
    for name, hint in get_type_hints(whole).items():
        for inner in get_type_hints(hint) if is_dataclass(hint) else ():
            keys.setdefault(inner, f"{name}.{inner}")
        keys.setdefault(name, name)
    for meant, names in _ALIASES.items():
        if meant.partition(" ")[0] in keys.values():
            keys |= {name: meant for name in names.split() if name not in keys}
    first, last = key.partition(".")[0], key.rpartition(".")[2]
    word = closest(last, keys, 0.75) or (None if first in keys else closest(first, keys, 0.75))
    hint = f"did you mean {keys[word]}?" if word else f"known: {', '.join(section.values())}"
    return ConfigError(f"unknown key {key}; {hint}")


def _explain(error: msgspec.ValidationError, data: Any) -> str:
    """Return the refused key, its value and the expected kind."""
    problem, _, place = str(error).rpartition(" - at ")
    path = place.strip("`").removeprefix("$").removeprefix(".")
    if not place or isinstance(error.__cause__, ValueError):  # raised by a section's own check
        return f"{path}.{problem}" if path else problem or str(error)
    if problem.startswith("Object missing required field"):
        return ".".join(filter(None, (path, problem.split("`")[1]))) + " is missing"
    prefix, _, _ = path.partition("[...]")  # msgspec does not say which value of a mapping
    for step in re.findall(r"\w+", prefix):
        data = data[int(step) if step.isdigit() else step]
    expected = problem.partition(", got ")[0]
    for word, plain in (("`array`", "list"), ("`object`", "section"), ("`", "")):
        expected = expected.replace(word, plain)
    return f"{path or 'the configuration'} is {data!r}; {expected[:1].lower()}{expected[1:]}"


def one_of(value: object, choices: Sequence[str]) -> str:
    """Return `expected one of ...`, with the closest choice if one is close."""
    meant = closest(str(value), choices)
    comma = "; " if any("," in choice for choice in choices) else ", "
    return f"expected one of {comma.join(choices)}" + (f"; did you mean {meant}?" if meant else "")


def _may_be(word: str, key: str) -> bool:
    """Return whether a word may be a misspelt name: not if a number in it, or a whole part, differs
    (adam_beta1 is not adam_beta2), nor if it names another algorithm."""
    numbers = [re.findall(r"\d+", name) for name in (word, key)]
    parts = [part for part in word.split("_") if len(part) > 1]
    alike = all(get_close_matches(part, key.split("_"), 1, 0.5) for part in parts)
    same = numbers[0] == numbers[1] or not all(numbers)  # a 0 may be an o
    return same and alike and word not in _ALGORITHMS


def closest(name: str, names: Iterable[str], alike: float = 0.6) -> str | None:
    """Return the name that was probably meant: a similar one, in any case, or one that contains it.

    alike: least ratio of `difflib.SequenceMatcher`, from 0 to 1.
    """
    plain = {key.lower().replace("-", "_"): key for key in names}
    word = name.lower().replace("-", "_")
    meant = get_close_matches(word, [key for key in plain if _may_be(word, key)], 1, alike)
    meant += [key for key in plain if word in key and len(word) > 2]
    return plain[meant[0]] if meant else None
