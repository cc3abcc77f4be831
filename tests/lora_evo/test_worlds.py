"""Children of random worlds against the operators' definitions in float64, and against PEFT.

A world is two or three parents of ranks 1 to 40 on modules of other shapes, each module present in
some of them (in all, for a crossover), with patterns of ranks and alphas, rslora, and types.
"""

from dataclasses import dataclass

import pytest
import torch
from by_hand import child_of, dense
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_evo import OPERATORS, Adapter, AdapterConfig, Slot
from lora_evo.children import make_child
from lora_evo.random_streams import keyed_stream

pytestmark = pytest.mark.filterwarnings("ignore")  # PEFT names patterns that fit nothing
SHAPES = {
    "layers.0.q": (12, 20),
    "layers.0.v": (24, 16),
    "layers.1.q": (6, 44),
    "layers.1.v": (9, 9),
}
TYPES = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 4e-2, torch.float16: 5e-3}
"""Of a child's factors, with the relative error that their rounding may make."""
SEED = 5


@dataclass(frozen=True, repr=False)
class World:
    parents: list[Adapter]
    weights: tuple[float, ...]
    density: float
    strength: float
    rank: int

    def __repr__(self):
        ranks = [{p: (s.rank, s.A.dtype) for p, s in one.slots.items()} for one in self.parents]
        rest = self.weights, self.density, self.strength, self.rank
        return f"{ranks} {[one.config.alpha_pattern for one in self.parents]} {rest}"

    def updates(self):
        """Of every parent by path, zeros where it lacks the module."""
        nothing = {path: torch.zeros(out, into).double() for path, (into, out) in SHAPES.items()}
        there = {path for parent in self.parents for path in parent.paths}
        found = [{p: dense(s) for p, s in parent.slots.items()} for parent in self.parents]
        return [{path: {**nothing, **one}[path] for path in sorted(there)} for one in found]


@st.composite
def worlds(draw, everywhere=False, one_rank=False, plain=False):
    count = draw(st.integers(2, 3))
    common = draw(st.integers(1, 40)) if one_rank else None
    shared = draw(st.sets(st.sampled_from(sorted(SHAPES)), min_size=1)) if everywhere else None
    parents = []
    for _ in range(count):
        paths = shared or draw(st.sets(st.sampled_from(sorted(SHAPES)), min_size=1))
        patterns = {}
        if not plain and draw(st.booleans()):
            patterns["alpha_pattern"] = {draw(st.sampled_from(["v", "layers.0.q"])): 3}
        if not (plain or one_rank) and draw(st.booleans()):
            patterns["rank_pattern"] = {draw(st.sampled_from(["q", r"layers\.1\.v"])): 5}
        config = AdapterConfig.new(
            r=common or draw(st.integers(1, 40)),
            lora_alpha=draw(st.sampled_from([1, 8, 24])),
            target_modules=sorted(paths),
            use_rslora=not plain and draw(st.booleans()),
            **patterns,
        )
        noise = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
        dtype, slots = draw(st.sampled_from(list(TYPES))), {}
        for path in sorted(paths):
            rank, (into, out) = config.rank(path), SHAPES[path]
            a, b = torch.randn(rank, into, generator=noise), torch.randn(out, rank, generator=noise)
            slots[path] = Slot(a.to(dtype), b.to(dtype), config.scale(path))
        parents.append(Adapter(config, slots))
    weights = tuple(draw(st.sampled_from([0.3, 0.5, 1.0, 2.0])) for _ in parents)
    density, strength = draw(st.sampled_from([0.3, 0.8, 1.0])), draw(st.sampled_from([0.05, 0.3]))
    return World(parents, weights, density, strength, draw(st.integers(1, 9)))


class Base(torch.nn.Module):
    """The modules of the shapes, as PEFT wants to see them."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Module() for _ in range(2))
        self.prepare_inputs_for_generation = None
        for path, (into, out) in SHAPES.items():
            home, _, name = path.rpartition(".")
            self.get_submodule(home).add_module(name, torch.nn.Linear(into, out).double())


def updates_in_peft(model, name, paths):
    layers = model.get_base_model()
    return {path: layers.get_submodule(path).get_delta_weight(name).double() for path in paths}


def error(found, wanted):
    """|found - wanted| / |wanted| over all modules."""
    assert sorted(found) == sorted(wanted)
    gap = sum(float((found[p] - wanted[p]).square().sum()) for p in wanted)
    return (gap / max(sum(float(w.square().sum()) for w in wanted.values()), 1e-30)) ** 0.5


def rounding(child):
    return max(TYPES[slot.A.dtype] for slot in child.slots.values())


def check(born, wanted, ranks, first):
    """The child is as near to what is wanted as its ranks allow, in PEFT, too, and says so.

    first: the first parent's updates by path.
    """
    child = born.adapter
    found = {path: dense(slot) for path, slot in child.slots.items()}
    assert {path: slot.rank for path, slot in child.slots.items()} == ranks
    for path, matrix in wanted.items():
        values, trace = torch.linalg.svdvals(matrix), born.lineage.modules[path]
        size, best = float(values.norm()), float(values[ranks[path] :].norm())
        allowed = best * 1.001 + rounding(child) * size
        assert float((found[path] - matrix).norm()) <= allowed, path
        assert trace.truncation_loss == pytest.approx(best / size, rel=1e-2, abs=1e-5), path
        if first[path].any():
            change = float((found[path] - first[path]).norm() / first[path].norm())
            slack = 2 * rounding(child) * (1 + size / float(first[path].norm()))
            assert trace.relative_change == pytest.approx(change, rel=1e-3, abs=slack), path
    check_in_peft(child, found)


def check_in_peft(child, found):
    pytest.importorskip("peft")
    model = child.to_peft(Base())
    assert error(updates_in_peft(model, "default", found), found) < rounding(child)


def summed(world, share):
    updates = world.updates()
    return {
        path: sum(share(k, path, update[path]) for k, update in enumerate(updates))
        for path in updates[0]
    }


def dropped(world, k, path, update):
    points = keyed_stream(SEED, path, "entries", str(k)).random(
        tuple(update.shape), dtype="float32"
    )
    return update * (torch.from_numpy(points) < world.density) / world.density


def trimmed(world, update):
    kept = max(1, int(world.density * update.numel()))
    least = update.abs().flatten().sort(descending=True).values[kept - 1]
    return torch.where(update.abs() >= least, update, 0)


def elected(world, part, normalise):
    """The sum of the entries that have the sign of the sum of all of them."""
    wanted = {}
    updates = world.updates()
    for path in updates[0]:
        parts = [
            part(k, path, w * u[path])
            for k, (w, u) in enumerate(zip(world.weights, updates, strict=True))
        ]
        sign = torch.where(sum(parts) >= 0, 1.0, -1.0).double()
        agrees = [(one * sign > 0).double() for one in parts]
        total = sum(one * agree for one, agree in zip(parts, agrees, strict=True))
        share = sum(w * agree for w, agree in zip(world.weights, agrees, strict=True))
        wanted[path] = total / torch.where(share == 0, 1, share) if normalise else total
    return wanted


MERGES = {
    "svd": lambda world: summed(world, lambda k, path, update: world.weights[k] * update),
    "ties": lambda world: elected(world, lambda k, path, update: trimmed(world, update), True),
    "dare_linear": lambda world: summed(
        world, lambda k, path, update: dropped(world, k, path, world.weights[k] * update)
    ),
    "dare_ties": lambda world: elected(
        world, lambda k, path, update: dropped(world, k, path, update), False
    ),
}
MERGES |= dict.fromkeys(("linear", "cat"), MERGES["svd"])


def check_merge(world, method):
    wanted = MERGES[method](world)
    more = {"density": world.density} if "ties" in method or "dare" in method else {}
    first, name = world.updates()[0], f"merge_{method}"
    born = make_child(world.parents, name, SEED, weights=world.weights, **more)
    held = [{slot.rank for slot in parent.slots.values()} for parent in world.parents]
    rank = sum(map(max, held)) if method == "cat" else max(map(max, held))
    ranks = {path: slot.rank for path, slot in born.adapter.slots.items()}
    assert max(ranks.values()) == rank
    if method != "cat" and len(set(ranks.values())) > 1:  # the patterns of all parents agree
        assert ranks == {p: s.rank for parent in world.parents for p, s in parent.slots.items()}
    check(born, wanted, ranks, first)
    if method in ("svd", "linear"):
        small = make_child(world.parents, name, 0, weights=world.weights, rank=world.rank)
        check(small, wanted, dict.fromkeys(wanted, world.rank), first)


def check_pefts_merge(world):
    """PEFT's own, without patterns and rslora, which it leaves out of the child's scale."""
    pytest.importorskip("peft")
    parents = world.parents
    model = Base()
    for number, parent in enumerate(parents):
        model = parent.to_peft(model, f"p{number}")
    names = [f"p{number}" for number in range(len(parents))]
    paths = sorted({path for parent in parents for path in parent.paths})
    low = max(slot.rank for one in parents for slot in one.slots.values()) <= 6
    for method in ("cat", "svd") if low else ("cat",):  # its svd fails above a module's width
        model.add_weighted_adapter(names, list(world.weights), method, combination_type=method)
        wanted = updates_in_peft(model, method, paths)
        child = child_of(f"merge_{method}", parents, weights=world.weights)
        found = {path: dense(slot) for path, slot in child.slots.items()}
        assert error(found, wanted) < max(1e-6, *map(rounding, (child, *parents))), method


def nearest_to(world, born, wanted):
    """A crossover's child is the nearest one of the first parent's ranks and dtype."""
    ranks = {path: slot.rank for path, slot in world.parents[0].slots.items()}
    check(born, wanted, ranks, world.updates()[0])
    assert born.adapter.config == world.parents[0].config


def shares(world):
    return [weight / sum(world.weights) for weight in world.weights]


def crossed(world, name, **more):
    return make_child(world.parents, name, SEED, **more)


def check_average(world):
    wanted = summed(world, lambda k, path, update: shares(world)[k] * update)
    nearest_to(world, crossed(world, "average", weights=world.weights), wanted)


def check_dare(world):
    first = world.updates()[0]

    def part(k, path, update):
        if k == 0:
            return update
        u, values, vt = torch.linalg.svd(update - first[path], full_matrices=False)
        kept = torch.from_numpy(keyed_stream(SEED, path, "drop", str(k)).random(len(values)) >= 0.4)
        return shares(world)[k] * (u * (values * kept / 0.6)) @ vt

    child = crossed(world, "dare", weights=world.weights, p=0.4)
    nearest_to(world, child, summed(world, part))


def check_extrapolate(world):
    two = World(world.parents[:2], world.weights[:2], 1.0, 0.1, 1)
    wanted = summed(two, lambda k, path, update: (1.3, -0.3)[k] * update)
    nearest_to(two, crossed(two, "extrapolate", eta=1.3), wanted)
    wanted = summed(two, lambda k, path, update: (-0.3, 1.3)[k] * update)
    nearest_to(two, crossed(two, "extrapolate", eta=1.3, fitness=[0.1, 0.2]), wanted)


def check_svd_subspace(world):
    bounds = torch.tensor(shares(world)).double().cumsum(dim=0)

    def part(k, path, update):
        u, values, vt = torch.linalg.svd(update, full_matrices=False)
        points = torch.from_numpy(keyed_stream(SEED, path, "triplet").random(len(values)))
        mine = torch.searchsorted(bounds[:-1].contiguous(), points, right=True) == k
        return (u * (values * mine)) @ vt

    child = crossed(world, "svd_subspace", weights=world.weights)
    nearest_to(world, child, summed(world, part))


def check_slot_swap(world):
    child = make_child(world.parents, "slot_swap", SEED, weights=world.weights)
    updates, traces = world.updates(), child.lineage.modules
    wanted = {path: updates[traces[path].source][path] for path in updates[0]}
    found = {path: dense(slot) for path, slot in child.adapter.slots.items()}
    assert error(found, wanted) < rounding(child.adapter)
    sources = {trace.source for trace in traces.values()}
    assert len(sources) > 1 or len(traces) == 1
    first, *rest = ({p: s.scale for p, s in one.slots.items()} for one in world.parents)
    moved = (([first, *rest][trace.source][path], first[path]) for path, trace in traces.items())
    assert child.lineage.moments_valid == all(scale == before for scale, before in moved)
    check_in_peft(child.adapter, found)


CROSSOVERS = {
    "average": check_average,
    "dare": check_dare,
    "extrapolate": check_extrapolate,
    "slot_swap": check_slot_swap,
    "svd_subspace": check_svd_subspace,
}


def run(strategy, test, examples):
    given(strategy)(
        settings(max_examples=examples, deadline=None, derandomize=True, database=None)(test)
    )()


SOME = [4, pytest.param(60, marks=pytest.mark.slow)]
"""Worlds of each operator."""


@pytest.mark.parametrize("examples", SOME)
@pytest.mark.parametrize("name", [*MERGES, "PEFT"])
def test_merges_are_what_they_say_in_every_world(name, examples):
    test = check_pefts_merge if name == "PEFT" else lambda world: check_merge(world, name)
    run(worlds(plain=name == "PEFT"), test, examples)


@pytest.mark.parametrize("examples", SOME)
@pytest.mark.parametrize("name", CROSSOVERS)
def test_crossovers_are_what_they_say_in_every_world(name, examples):
    run(worlds(everywhere=True, one_rank=name == "slot_swap"), CROSSOVERS[name], examples)


def test_every_operator_on_updates_has_its_worlds():
    tested = {f"merge_{method}" for method in MERGES} | CROSSOVERS.keys()
    left = [OPERATORS[name] for name in OPERATORS.keys() - tested]
    assert all(one.kind == "mutation" or one.summary.startswith("baseline") for one in left)
