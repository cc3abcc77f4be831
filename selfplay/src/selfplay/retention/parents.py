"""Parents worth retaining: adapters warmed up on worked solutions, then practised as students."""

from dataclasses import dataclass

from evals.engine.streams import derive_seed
from lora_evo import Adapter
from lora_evo.recovery.plan import ParentPair
from selfplay.nano.labels import LabelledProgram
from selfplay.retention.student import FixedTaskLearner
from selfplay.retention.tasks import nano_examples
from selfplay.warmup.supervised_step import supervised_step, token_pair

EXAMPLES = 24
"""Worked solutions per step of the warm-up."""


@dataclass(frozen=True)
class ParentRecipe:
    """How a parent is made."""

    name: str
    trunk: str
    """Names the start and the data of the first half of the warm-up; siblings share it."""
    branch: str
    """Names the data of everything after."""


def parent_recipes(parents: int) -> list[ParentRecipe]:
    """`parents` parents that share nothing, and a sibling of the first."""
    names = [f"p{i}" for i in range(parents)]
    return [*(ParentRecipe(n, n, n) for n in names), ParentRecipe("p0-sibling", "p0", "p0-sibling")]


def nano_pairs(parents: int) -> tuple[ParentPair, ...]:
    """The first parent with its sibling, and every parent with the next one."""
    names = [f"p{i}" for i in range(parents)]
    far = [(names[i], names[(i + 1) % parents]) for i in range(parents)] if parents > 1 else []
    return (ParentPair("p0", "p0-sibling", "sibling"), *(ParentPair(a, b, "far") for a, b in far))


def train_parent(
    recipe: ParentRecipe,
    students: FixedTaskLearner,
    programs: list[LabelledProgram],
    *,
    warm_up_steps: int,
    warm_up_rate: float,
    practice_steps: int,
    seed: int,
) -> Adapter:
    """Train one parent from a fresh adapter, in the first place of the stack."""
    learner = students.learner
    member = learner.members[0]
    learner.adapters.initialise(0, derive_seed(seed, "parent", recipe.trunk))
    learner.optimizer.reset(0)
    learner.optimizer.states[0].learning_rate = warm_up_rate
    for step in range(warm_up_steps):
        source = recipe.trunk if step < warm_up_steps // 2 else recipe.branch
        data = nano_examples(programs, EXAMPLES, derive_seed(seed, "warm-up", source, step))
        pairs = [token_pair(students.tokenizer, e.prompt, e.completion) for e in data]
        supervised_step(learner, 0, pairs)
    students.start([learner.export(member)], derive_seed(seed, "practice", recipe.branch))
    for _ in range(practice_steps):
        students.step([0])
    return learner.export(member)
