"""Configurations: presets, strict reading, --set, and the round trip through YAML."""

from dataclasses import asdict, fields, is_dataclass
from typing import get_args, get_type_hints

import pytest
import yaml

from selfplay.config import Config, config_text, load_preset, read_config
from selfplay.errors import ConfigError
from selfplay.members.population import open_learner
from selfplay.settings import extend_preset, preset_text, read_preset, shipped

SECTIONS = ("rollout", "learner", "reward", "league", "evolution", "sandbox", "eval")


def refusal(*assignments, read=load_preset):
    with pytest.raises(ConfigError) as caught:
        read("nano", *assignments)
    return str(caught.value)


@pytest.mark.parametrize("name", shipped("presets"))
def test_every_preset_reads_and_comes_back_from_its_own_text(name):
    config = read_config(read_preset(name))
    written = yaml.safe_load(config_text(config))
    assert read_config(written) == config
    assert all(set(written[s]) == {f.name for f in fields(getattr(config, s))} for s in SECTIONS)
    assert preset_text(name).startswith("# ")


def test_mode_azr_trains_as_absolute_zero_unless_a_key_says_otherwise():
    found = load_preset("nano", "mode=azr", "learner.entropy_coef=0", "learner.r=3")
    assert (found.rollout.buffer_keeps, found.reward.teacher) == ("oldest", "azr")
    assert found.learner.loss_type == "dapo"
    assert (found.learner.weight_decay, found.learner.entropy_coef) == (0.01, 0.0)
    assert found.learner.r == 3
    courses = [read_config(data).learner.lr_scheduler_type for data in ({"mode": "azr"}, {})]
    assert courses == ["constant", "linear"]
    assert read_config(yaml.safe_load(config_text(found))) == found
    assert load_preset("nano").rollout.buffer_keeps == "newest"


def test_a_file_that_extends_a_preset_holds_what_differs():
    data = extend_preset({"extends": "7b-8t8s", "steps": 3, "learner": {"r": 16}})
    expected = read_preset("7b-8t8s")
    expected |= {"steps": 3, "learner": {**expected["learner"], "r": 16}}
    assert data == expected
    assert data["teachers"] == 8
    assert data["learner"]["lora_alpha"] == 64


def test_an_unknown_key_is_named_with_the_one_that_was_meant_or_all():
    for key, meant in (
        *(("teachrs", "teachers"), ("learner.lr", "learner.learning_rate")),
        *(("actor.optim.lr", "learner.learning_rate"), ("LoRA-Rank", "learner.r")),
        *(("learn.zzzz", "learner"), ("max_new_tokens", "rollout.max_completion_length")),
        ("learner.adam_bata2", "learner.adam_beta2"),
        ("batch_size", "rollout.proposals or learner.micro_batch_tokens"),
    ):
        assert refusal(f"{key}=1") == f"unknown key {key}; did you mean {meant}?"
    unlike = ("learner.dropout", "zzzzzz", "7")
    # What differs in a number or in a whole word is no misspelling.
    unlike += ("learner.adam_beta1", "learner.importance_sampling_level", "load_in_8bit")
    for key in unlike:
        assert f"unknown key {key}; known: " in refusal(f"{key}=1")


def test_a_value_is_corrected_where_it_is_misspelt():
    for value in ("gspo", "dppo"):
        assert "did you mean" not in refusal(f"learner.loss_type={value}")
    assert "did you mean grpo?" in refusal("learner.loss_type=gprpo")


def keys_of(config):
    """Dotted keys of a configuration, with types and bounds."""
    for field in get_type_hints(config, include_extras=True).items():
        name, hint = field
        if is_dataclass(hint):
            yield from ((f"{name}.{key}", of) for key, of in keys_of(hint))
        else:
            yield field


def beyond_bounds():
    """Assignments just outside every bound of every setting, nan and inf for every number."""
    for key, hint in keys_of(Config):
        for part in (hint, *get_args(hint)):
            for meta in getattr(part, "__metadata__", ()):
                for name, sign in (("ge", -1), ("gt", 0), ("le", 1), ("lt", 0)):
                    if (bound := getattr(meta, name)) is not None:
                        yield f"{key}={bound + sign}"
        if float in (hint, *get_args(hint)):
            yield from (f"{key}=.nan", f"{key}=.inf", f"{key}=-.inf", f"{key}=nan", f"{key}=1e999")


def test_values_beyond_their_bounds_and_numbers_without_end_are_refused_by_name():
    assignments = [*beyond_bounds()]
    assert len(assignments) > 100
    for assignment in assignments:
        key = assignment.partition("=")[0]
        assert refusal(assignment).startswith(f"{key} is "), assignment


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("learner.learning_rate=1e-4", 1e-4),
        ("learner.learning_rate=1", 1.0),
        ("base=/models/a=b", "/models/a=b"),
        ("rollout.kinds=code_o", ("code_o",)),
        ("report_to=wandb, trackio", ("wandb", "trackio")),
        ("evolution.mutation=svd_structured", "svd_structured"),
    ],
)
def test_set_reaches_every_kind_of_value(assignment, value):
    found = asdict(load_preset("nano", assignment))
    for name in assignment.partition("=")[0].split("."):
        found = found[name]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("steps=2.5", "steps is 2.5; expected int"),
        ("steps=true", "steps is True; expected int"),
        ("rollout.temperature=1e-30", "rollout.temperature is '1e-30'; expected float >= 0.01"),
        ("learner.teacher_beta=hot", "learner.teacher_beta is 'hot'; expected float | null"),
        ("report_to=[tensorbord]", "report_to[0] is 'tensorbord'; expected one of"),
        ("learner.importance_sampling_correction=maybe", "is 'maybe'; expected bool"),
        ("rollout=5", "rollout is 5; expected section"),
        ("rollout.kinds=[]", "rollout.kinds is []; expected list of length >= 1"),
        ("rollout.kinds=[code_x]", "rollout.kinds names 'code_x'; expected one of code_o"),
        ("rollout.kinds=[code_o, code_o]", "rollout.kinds names a kind twice"),
        ("rollout.solved_from=0", "rollout.solved_from is 0.0; expected above 0, at most 1"),
        ("learner.frozen=[t2]", "learner.frozen: 't2'; expected one of t0"),
    ],
)
def test_what_cannot_be_read_says_what_was_found_and_expected(assignment, expected):
    assert expected in refusal(assignment)


def test_set_that_is_no_assignment_says_so():
    for assignment in ("steps", "=3", "", "learner.r=[", "steps.more=1"):
        assert "--set" in refusal(assignment)


def test_the_learner_takes_temperature_and_length_of_the_samples(runs):
    learner, _ = open_learner(runs.config("rollout.temperature=0.7"))
    assert learner.scorer.output.temperature == 0.7
    assert learner.rollout.max_completion_length == 8
