"""Configurations: presets, strict reading, --set, and the round trip through YAML."""

from dataclasses import asdict, fields

import pytest
import yaml

from selfplay.aliases import ALIASES
from selfplay.config import config_text, load_preset, read_config
from selfplay.errors import ConfigError
from selfplay.files.layout import CONFIG, create, open_config
from selfplay.members.opening import open_learner
from selfplay.settings import extended, override, preset_names, preset_text, read_preset

SECTIONS = ("rollout", "learner", "reward", "league", "evolution", "sandbox", "eval")


def refusal(*assignments, read=load_preset):
    with pytest.raises(ConfigError) as caught:
        read("nano", *assignments)
    return str(caught.value)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_reads_and_comes_back_from_its_own_text(name):
    config = read_config(read_preset(name))
    written = yaml.safe_load(config_text(config))
    assert read_config(written) == config
    assert all(set(written[s]) == {f.name for f in fields(getattr(config, s))} for s in SECTIONS)
    assert preset_text(name).startswith("# ")


def test_the_presets_are_the_documented_ones():
    sizes = {"7b-1t1s": (1, 1), "7b-4t4s": (4, 4), "7b-8t8s": (8, 8)}
    assert set(preset_names()) == {"nano", "smol", "7b-azr", "7b-4t4s-long", "7b-azr-long", *sizes}
    for name, members in sizes.items():
        config = read_config(read_preset(name))
        assert (config.teachers, config.students) == members
        assert (config.learner.r, config.learner.learning_rate) == (32, 1e-5)
        assert (config.rollout.max_rows, config.vllm.gpu_memory_utilization) == (256, 0.6)
    azr = read_config(read_preset("7b-azr"))
    assert (azr.rollout.proposals, azr.rollout.num_generations) == (64, 8)


def test_the_single_agent_and_the_populations_have_the_same_lengths():
    names = {
        False: ("7b-azr", "7b-1t1s", "7b-4t4s", "7b-8t8s"),
        True: ("7b-azr-long", "7b-4t4s-long"),
    }
    for long, presets in names.items():
        for name in presets:
            rollout = load_preset(name).rollout
            limits = (rollout.max_proposal_length, rollout.max_completion_length)
            assert limits == ((8096, 8096) if long else (4096, 4096)), name
            assert rollout.max_prompt_length == 6144


def test_mode_azr_trains_as_absolute_zero_unless_a_key_says_otherwise():
    found = load_preset("nano", "mode=azr", "learner.entropy_coef=0", "learner.r=3")
    assert (found.rollout.train_on, found.rollout.buffer_keeps) == ("buffer", "oldest")
    assert (found.reward.whiten, found.learner.loss_type) == ("tokens", "dapo")
    assert (found.learner.weight_decay, found.learner.entropy_coef) == (0.01, 0.0)
    assert found.learner.r == 3
    courses = [read_config(data).learner.lr_scheduler_type for data in ({"mode": "azr"}, {})]
    assert courses == ["constant", "linear"]
    assert read_config(yaml.safe_load(config_text(found))) == found
    assert load_preset("nano").rollout.train_on == "attempts"


def test_a_file_that_extends_a_preset_holds_what_differs():
    data = extended({"extends": "7b-8t8s", "steps": 3, "learner": {"r": 16}})
    expected = read_preset("7b-8t8s")
    expected |= {"steps": 3, "learner": {**expected["learner"], "r": 16}}
    assert data == expected
    assert data["teachers"] == 8
    assert data["learner"]["lora_alpha"] == 64


@pytest.mark.parametrize(
    ("name", "words"),
    [("7b-4t4", "did you mean 7b-4t4s?"), ([1], r"no preset or file \[1\]; expected one of")],
)
def test_a_preset_to_extend_that_is_none_is_named(name, words):
    with pytest.raises(ConfigError, match=words):
        extended({"extends": name})


@pytest.mark.parametrize("name", ["", "../config", "nano.yaml", "no such thing"])
def test_what_is_neither_a_preset_nor_a_file_is_named(name):
    with pytest.raises(ConfigError, match="no preset or file"):
        read_preset(name)


@pytest.mark.parametrize(
    ("data", "meant"),
    [
        ({"teacher": 3}, "teachers or reward.teacher"),
        ({"teachrs": 3}, "teachers"),
        ({"reward": {"teachr": "azr"}}, "reward.teacher"),
        ({"rollout": {"num_generation": 3}}, "rollout.num_generations"),
        ({"learner": {"lr": 0.1}}, "learner.learning_rate"),
        ({"lr": 0.1}, "learner.learning_rate"),
        ({"a": {"lr": 0.1}}, "learner.learning_rate"),
        ({"sandbox": {"lora": 3}}, "learner.r"),
        ({"r": 3}, "learner.r"),
        ({"learner": {"rr": 16}}, "learner.r"),
        ({"learner": {"rank": 16}}, "learner.r"),
        ({"LoRA-Rank": 16}, "learner.r"),
        ({"lora_rnk": 16}, "learner.r"),
        ({"alpha": 16}, "learner.lora_alpha"),
        ({"learning_rate": 1e-4}, "learner.learning_rate"),
        ({"learning-rate": 1e-4}, "learner.learning_rate"),
        ({"rollout": {"learner": {"r": 3}}}, "learner.r"),
        ({"actor": {"optim": {"lr": 0.1}}}, "learner.learning_rate"),
        ({"learn": {"lr": 0.1}}, "learner.learning_rate"),
        ({"learn": {"zzzz": 0.1}}, "learner"),
        ({"rolout": 3}, "rollout"),
        ({"temperature": 1}, "rollout.temperature"),
        ({"eval": {"temperatur": 1}}, "eval.temperature"),
        ({"max_new_tokens": 9}, "rollout.max_completion_length"),
        ({"rollout": {"group_size": 9}}, "rollout.num_generations"),
        ({"per_device_train_batch_size": 1}, "learner.micro_batch_tokens"),
        (
            {"batch_size": 8},
            "rollout.proposals (tasks a step) or learner.micro_batch_tokens (tokens at a time)",
        ),
        ({"output_dir": "x"}, "the option --out"),
        ({"learner": {"temperature": 1}}, "rollout.temperature"),
        ({"learner": {"max_completion_length": 9}}, "rollout.max_completion_length"),
        ({"learner": {"warmup": 3}}, "learner.warmup_steps"),
        ({"learner": {"micro_batch": 3}}, "learner.micro_batch_tokens"),
        ({"evolution": {"evolve_evry": 3}}, "evolution.evolve_every"),
        ({"league": {"grace_match": 3}}, "league.grace_matches"),
        ({"sandbox": {"wal_s": 3}}, "sandbox.wall_s"),
        ({"reward": {"rigth": 3}}, "reward.right"),
        ({"learner": {"dropout": 0.1}}, None),
        ({"zzzzzz": 1}, None),
        ({7: 1}, None),
    ],
)
def test_unknown_key_is_named_with_the_one_that_was_meant(data, meant):
    message = refusal(read=lambda _: read_config(data))
    assert "unknown key" in message
    assert (f"did you mean {meant}?" if meant else "; known: ") in message


def test_every_alias_leads_to_a_key_or_an_option_that_there_is():
    text = config_text(load_preset("nano"))
    data = yaml.safe_load(text)
    sections = {name: set(keys) for name, keys in data.items() if isinstance(keys, dict)}
    keys = set(data) | {f"{name}.{key}" for name, inner in sections.items() for key in inner}
    for alias, meant in ALIASES.items():
        assert alias not in keys
        for part in meant.split(" or "):
            assert part.startswith("the option --") or part.partition(" ")[0] in keys, alias


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("report_to=wandb", ("wandb",)),
        ("report_to=[wandb]", ("wandb",)),
        ("report_to=wandb, trackio", ("wandb", "trackio")),
        ("rollout.kinds=code_o", ("code_o",)),
        ("rollout.kinds=code_o,code_i", ("code_o", "code_i")),
        ("learner.target_modules=q_proj", ("q_proj",)),
        ("eval.held_out=a.jsonl", ("a.jsonl",)),
        ("evolution.mutation=svd_structured", "svd_structured"),
        ("evolution.mutation=svd_structured,full_gaussian", ("svd_structured", "full_gaussian")),
    ],
)
def test_a_single_value_is_a_list_of_one(assignment, value):
    found = asdict(load_preset("nano", assignment))
    for name in assignment.partition("=")[0].split("."):
        found = found[name]
    assert found == value


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("steps=2.5", "steps is 2.5; expected a whole number"),
        ("steps=many", "steps is 'many'; expected a whole number"),
        ("steps=true", "steps is True; expected a whole number"),
        ("steps=", "steps is None; expected a whole number"),
        ("base=3", "base is 3; expected a text"),
        ("rollout.temperature=1e-30", "rollout.temperature is 1e-30; expected a number >= 0.01"),
        ("rollout.temperature=1e30", "rollout.temperature is 1e+30; expected a number <= 100"),
        ("eval.temperature=1e-9", "eval.temperature is 1e-09; expected a number >= 0.01"),
        ("rollout.temperature=hot", "rollout.temperature is 'hot'; expected a number"),
        ("learner.teacher_beta=hot", "learner.teacher_beta is 'hot'; expected a number or null"),
        ("report_to=tensorbord", "report_to is 'tensorbord'; expected one of"),
        ("report_to=", "report_to is None; expected a list"),
        ("league.pfsp=1", "league.pfsp is 1; expected a list"),
        ("learner.importance_sampling_correction=1", "expected true or false"),
        ("rollout=5", "rollout is 5; expected a section"),
        ("rollout.kinds=[1]", "rollout.kinds"),
        ("rollout.kinds=[[code_o]]", "rollout.kinds"),
        ("learner.target_modules=[1]", "learner.target_modules"),
        ("league.pfsp=[a, b]", "pfsp"),
        ("league.pfsp=[1]", "pfsp"),
        ("report_to=[tensorbord]", "did you mean tensorboard"),
    ],
)
def test_wrong_types_say_what_was_found_and_expected(assignment, expected):
    assert expected in refusal(assignment)


@pytest.mark.parametrize(
    "assignment",
    [
        "teachers=0",
        "steps=0",
        "seed=-1",
        "rollout.proposals=-8",
        "rollout.num_generations=0",
        "rollout.temperature=0",
        "rollout.temperature=.nan",
        "rollout.kinds=[]",
        "rollout.kinds=[code_x]",
        "rollout.kinds=[code_o, code_o]",
        "learner.loss_type=ppo",
        "learner.epsilon=1.0",
        "learner.importance_sampling_clip_max=0",
        "learner.beta=-0.1",
        "learner.frozen=[t2]",
        "learner.lr_scheduler_type=polynomial",
        "learner.min_lr_rate=1.1",
        "sandbox.runs=1",
        "sandbox.wall_s=-1",
        "learner.learning_rate=-1",
        "learner.adam_beta1=1",
        "learner.r=0",
        "evolution.evolve_every=-1",
        "evolution.replaced_fraction=1.5",
        "evolution.mutation=svd_structred",
        "evolution.crossover=svd_structured",
        "reward.right=.nan",
        "league.explore=2",
        "league.grace_matches=-1",
        "dtype=float8",
    ],
)
def test_values_out_of_range_are_refused_by_name(assignment):
    name = assignment.partition("=")[0].rpartition(".")[2]
    assert name in refusal(assignment)


@pytest.mark.parametrize(
    ("assignment", "place", "value"),
    [
        ("steps=3", ("steps",), 3),
        ("learner.r=16", ("learner", "r"), 16),
        ("learner.learning_rate=1e-4", ("learner", "learning_rate"), 1e-4),
        ("learner.learning_rate=1", ("learner", "learning_rate"), 1.0),
        ("rollout.kinds=[code_o, code_i]", ("rollout", "kinds"), ("code_o", "code_i")),
        ("base=/models/a=b", ("base",), "/models/a=b"),
        ("league.fitness=reward", ("league", "fitness"), "reward"),
        ("reward.wrong=0", ("reward", "wrong"), 0.0),
    ],
)
def test_set_reaches_every_kind_of_value(assignment, place, value):
    found = asdict(load_preset("nano", assignment))
    for name in place:
        found = found[name]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("assignment", ["steps", "=3", "", "learner.r=[", "steps.more=1"])
def test_set_that_is_no_assignment_says_so(assignment):
    with pytest.raises(ConfigError, match="--set"):
        override(read_preset("nano"), assignment)


def test_the_learner_takes_temperature_and_length_of_the_samples(runs):
    learner, _ = open_learner(runs.config("rollout.temperature=0.7"))
    assert learner.forward_pass.output.temperature == 0.7
    assert learner.max_completion_length == 8


def test_a_run_whose_league_was_made_with_settings_that_are_gone_opens(tmp_path):
    config = load_preset("nano")
    create(tmp_path / "run", config)
    path = tmp_path / "run" / CONFIG
    written = yaml.safe_load(path.read_text())
    written["league"] |= {"matcher": "sampled", "snapshot_every": 64}
    path.write_text(yaml.safe_dump(written))
    assert open_config(tmp_path / "run") == config
