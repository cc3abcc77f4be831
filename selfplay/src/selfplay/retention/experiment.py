"""The retention experiment: parents, the learner, and the trials of `lora_evo` with both."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

from code_verifier import Sandbox
from lora_evo import Adapter, load_adapter, save_adapter
from lora_evo.operators.plugins import known_operators
from lora_evo.recovery.plan import ParentPair, Treatment, TrialPlan
from lora_evo.recovery.protocol import RecoveryProtocol
from lora_evo.recovery.trials import run_trials
from selfplay.config.run_config import RunConfig
from selfplay.errors import ConfigError
from selfplay.nano.labels import LabelledProgram
from selfplay.population.opening import open_learner, open_sandbox, open_template
from selfplay.retention.handicap import weaken
from selfplay.retention.parents import ParentRecipe, nano_pairs, parent_recipes, train_parent
from selfplay.retention.student import FixedTaskLearner, Lesson
from selfplay.retention.tasks import NANO_TOKENS, nano_programs, nano_tasks, read_tasks
from selfplay.run.directory import lock

TRIALS, PARENTS = "trials.jsonl", "parents"
PRACTICE_PROGRAMS = 512
"""Nano programs that are practised on and warmed up with."""


@dataclass(frozen=True)
class RetentionSettings:
    """What is tried and how much of it."""

    parents: int = 3
    """Parents brought up for the experiment (and a sibling of the first)."""
    seeds: int = 3
    """Seeds of operators and training, for each treatment and parent."""
    checks: tuple[int, ...] = (0, 1, 2, 4, 8, 12, 16, 20, 25, 30)
    """Steps after which fitness is measured."""
    held_out: int = 384
    """Tasks that fitness is measured on."""
    tasks: int = 12
    """Tasks per step of training."""
    handicap: float = 0.6
    """Noise on the base's weights, relative to their spread; the nano base only."""
    warm_up_steps: int = 150
    """Supervised steps of every parent."""
    warm_up_rate: float = 2e-3
    """Learning rate of them."""
    practice_steps: int = 16
    """Steps of every parent as a student, as its children will take them."""
    together: int = 40
    """Children trained side by side."""
    stop_early: bool = True
    """Children are no longer trained once they have recovered."""

    def __post_init__(self) -> None:
        counts = (self.parents, self.seeds, self.held_out, self.tasks, self.together)
        if min(counts) < 1 or min(self.warm_up_steps, self.practice_steps) < 0:
            raise ConfigError(
                "parents, seeds, held_out, tasks and together must be at least 1, and steps at "
                "least 0"
            )
        if not 0 <= self.handicap <= 10 or not self.warm_up_rate >= 0:
            raise ConfigError(
                f"handicap is {self.handicap} and warm_up_rate {self.warm_up_rate}; expected 0 to "
                "10, and at least 0"
            )


def every_operator() -> tuple[Treatment, ...]:
    """All known operators with their default parameters."""
    return tuple(Treatment(name) for name in known_operators())


def run_experiment(
    config: RunConfig,
    home: Path,
    settings: RetentionSettings,
    treatments: Sequence[Treatment],
    *,
    given: Sequence[Path] = (),
    task_file: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """Run what is not done yet of an experiment, and return its journal.

    given: directories of parents, and task_file: tasks, in place of the nano model's own; a base
    other than nano needs both.
    """
    native = config.base == "nano" and config.template == "nano"
    if not native and (not given or task_file is None):
        raise ConfigError(
            f"the base {config.base!r} has no built-in parents and tasks; give some with "
            "--parent DIR and --tasks FILE, as `selfplay train` and `selfplay tasks` write them"
        )
    for treatment in treatments:
        treatment.check()
    protocol = RecoveryProtocol(checks=settings.checks)
    home.mkdir(parents=True, exist_ok=True)
    with closing(lock(home)), open_sandbox(config) as sandbox:
        students, programs = _students(config, settings, sandbox, native and not given, task_file)
        parents: dict[str, Adapter] = {}
        pairs: tuple[ParentPair, ...]
        if given:
            parents = {path.name: load_adapter(path) for path in given}
            if len(parents) < len(given):
                raise ConfigError("two of the parents' directories have the same name")
            pairs = tuple(ParentPair(a, b, "given") for a, b in pairwise(parents))
        else:
            for recipe in parent_recipes(settings.parents):
                parents[recipe.name] = _parent(
                    recipe, home, students, programs, config, settings, say
                )
            pairs = nano_pairs(settings.parents)
        plan = TrialPlan(
            parents=tuple(list(parents)[: len(given) or settings.parents]),
            pairs=pairs,
            treatments=tuple(treatments),
            seeds=tuple(range(settings.seeds)),
            together=settings.together,
        )
        run_trials(
            home / TRIALS,
            plan,
            parents,
            students,
            protocol,
            setting=_setting(config, settings),
            stop_early=settings.stop_early,
            report=lambda done, total, what: say(f"{done}/{total} {what}"),
        )
    return home / TRIALS


def _setting(config: RunConfig, settings: RetentionSettings) -> dict[str, object]:
    """What the numbers depend on; more parents or seeds may be added later."""
    free = ("parents", "seeds", "together", "checks")
    return {
        "base": config.base,
        "template": config.template,
        "seed": config.seed,
        "attempts": config.rollout.num_generations,
        "learner": asdict(config.learner) | {"target_modules": [*config.learner.target_modules]},
        "reward": asdict(config.reward),
        **{k: v for k, v in asdict(settings).items() if k not in free},
    }


def _students(
    config: RunConfig,
    settings: RetentionSettings,
    sandbox: Sandbox,
    handicapped: bool,
    task_file: Path | None,
) -> tuple[FixedTaskLearner, list[LabelledProgram]]:
    """The learner of the trials, and the programs that nano parents are warmed up with."""
    # All places train as students, whatever their names: one learning rate for all.
    stack = replace(
        config,
        mode="populora",
        teachers=1,
        students=max(1, settings.together - 1),
        learner=replace(config.learner, teacher_learning_rate=None),
    )
    learner, engine = open_learner(stack)
    if handicapped and settings.handicap:
        weaken(learner.adapters, settings.handicap, config.seed)
        learner.base_model = f"nano with noise {settings.handicap:g}, seed {config.seed}"
    programs: list[LabelledProgram] = []
    longest = config.rollout.max_completion_length
    if task_file is None:
        programs = nano_programs(settings.held_out + PRACTICE_PROGRAMS, config.seed)
        tasks = nano_tasks(programs, settings.held_out, config.seed)
        longest = min(longest, NANO_TOKENS)
    else:
        tasks = read_tasks(task_file, settings.held_out)
    r = config.rollout
    lesson = Lesson(settings.tasks, r.num_generations, longest, r.temperature)
    template = open_template(config)
    students = FixedTaskLearner(learner, engine, template, sandbox, tasks, lesson, config.reward)
    return students, programs[settings.held_out :]


def _parent(
    recipe: ParentRecipe,
    home: Path,
    students: FixedTaskLearner,
    programs: list[LabelledProgram],
    config: RunConfig,
    settings: RetentionSettings,
    say: Callable[[str], None],
) -> Adapter:
    """The parent saved by an earlier call, or a new one, which is saved."""
    place = home / PARENTS / recipe.name
    if place.is_dir():
        return load_adapter(place)
    say(f"bringing up {recipe.name}")
    adapter = train_parent(
        recipe,
        students,
        programs,
        warm_up_steps=settings.warm_up_steps,
        warm_up_rate=settings.warm_up_rate,
        practice_steps=settings.practice_steps,
        seed=config.seed,
    )
    save_adapter(adapter, place)
    return adapter
