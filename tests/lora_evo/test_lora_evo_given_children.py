"""Children that were made elsewhere in a plan of trials, with a learner that never learns."""

import pytest

from lora_evo import LoraEvoError, mutate
from lora_evo.recovery.journal import read_journal
from lora_evo.recovery.plan import GIVEN, ParentPair, Treatment, TrialPlan, read_treatment
from lora_evo.recovery.protocol import RecoveryProtocol
from lora_evo.recovery.summary import summarise
from lora_evo.recovery.trials import run_trials

PROTOCOL = RecoveryProtocol(checks=(0, 1, 2), resamples=100)


class Idle:
    """The fitness of an adapter is the first number of its first B."""

    def start(self, adapters, seed):
        self.values = [float(a.slots[a.paths[0]].B[0, 0]) for a in adapters]

    def step(self, active):
        pass

    def fitness(self, active):
        return [[self.values[place]] * 3 for place in active]


def test_a_given_child_stands_beside_the_controls_of_its_first_parent(make_adapter, tmp_path):
    parents = {"p": make_adapter(1), "q": make_adapter(2)}
    child = mutate(parents["q"], "full_gaussian", seed=1, strength=0.3)
    plan = TrialPlan(("p",), (), (), (0, 1), given={"c": ("q", "p"), "d": ("p",)})
    cohorts = list(plan.cohorts())
    assert [[t.treatment.name for t in cohort] for cohort in cohorts] == 2 * [
        ["continued", "reset", "given child=d"], ["continued", "reset", "given child=c"],
    ]  # fmt: skip
    assert (cohorts[1][2].parents, cohorts[1][2].relation) == (("q", "p"), GIVEN)
    assert (cohorts[0][2].parents, cohorts[0][2].relation) == (("p",), "")
    children = {"c": child, "d": parents["p"]}
    run_trials(tmp_path / "t.jsonl", plan, parents, Idle(), PROTOCOL, children=children)
    rows = {row.name: row for row in summarise(read_journal(tmp_path / "t.jsonl")).rows}
    assert rows["given child=c"].relative_change == pytest.approx(0.3, rel=1e-3)
    own = float(child.slots[child.paths[0]].B[0, 0])
    other = {n: float(p.slots[p.paths[0]].B[0, 0]) for n, p in parents.items()}
    assert rows["given child=c"].over_continued.mean == pytest.approx(own - other["q"])
    assert rows["given child=c"].start == pytest.approx(own - max(other.values()))
    assert rows["given child=d"].over_continued.mean == 0


def test_missing_adapters_and_misuse_are_refused(make_adapter, tmp_path):
    parents = {"p": make_adapter(1)}
    plan = TrialPlan(("p",), (), (), (0,), given={"c": ("p", "q")})
    with pytest.raises(LoraEvoError, match="no adapter was given for q, c"):
        run_trials(tmp_path / "t.jsonl", plan, parents, Idle(), PROTOCOL)
    assert not list(tmp_path.iterdir())
    with pytest.raises(LoraEvoError, match="treatments are"):
        TrialPlan(("p",), (), (), (0,))
    with pytest.raises(LoraEvoError, match="given"):
        read_treatment("given child=c")
    with pytest.raises(LoraEvoError, match="given"):
        TrialPlan(("p",), (ParentPair("p", "q", "far"),), (Treatment(GIVEN),), (0,))
