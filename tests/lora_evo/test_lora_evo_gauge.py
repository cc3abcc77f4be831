"""The same child written in another gauge."""

import pytest
import torch
from click.testing import CliRunner

from lora_evo import (
    OPERATORS,
    LoraEvoError,
    Slot,
    cross_with_report,
    distance,
    mutate_with_report,
    save_adapter,
)
from lora_evo.cli import main
from lora_evo.files.adapter import Adapter

FITNESS = {"xes", "factor_xes"}


def child_of(operator, parents, **parameters):
    if OPERATORS[operator].kind == "mutation":
        return mutate_with_report(parents[0], operator, 1, **parameters)
    if operator in FITNESS:
        parameters["fitness"] = [1.0, 2.0]
    return cross_with_report(parents, operator, 1, **parameters)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("gauge", ["balanced", "parent"])
def test_the_update_is_the_same_and_the_norms_are_as_said(make_adapter, operator, gauge):
    parents = [make_adapter(seed, dtype=torch.float64) for seed in (1, 2)]
    plain = child_of(operator, parents)
    other = child_of(operator, parents, gauge=gauge)
    assert distance(plain.adapter, other.adapter) < 1e-7
    assert other.lineage.parameters["gauge"] == gauge
    assert "gauge" not in plain.lineage.parameters
    assert not other.lineage.moments_valid
    for path, slot in other.adapter.slots.items():
        rows, columns = slot.A.norm(dim=1), slot.B.norm(dim=0)
        live = columns > 0
        assert bool((rows > 0).all())
        if gauge == "balanced":
            assert torch.allclose(rows[live], columns[live], rtol=1e-6)
        else:
            size = parents[0].slots[path].A.norm() / 4**0.5
            assert torch.allclose(rows, size.expand(4), rtol=1e-6)
        inner = slot.A @ slot.A.T
        assert torch.allclose(inner, torch.diag(inner.diagonal()), atol=1e-9)


def test_the_gauge_of_the_operator_is_the_default(make_adapter):
    parent = make_adapter(1)
    plain = mutate_with_report(parent, "svd_structured", 1)
    named = mutate_with_report(parent, "svd_structured", 1, gauge="operator")
    assert plain.lineage == named.lineage


def test_fresh_and_deficient_modules_stay_alive(make_adapter):
    fresh = make_adapter(1, zero=True)
    child = mutate_with_report(fresh, "svd_structured", 1, gauge="balanced").adapter
    assert all(torch.equal(slot.A, fresh.slots[path].A) for path, slot in child.slots.items())
    full = make_adapter(2, dtype=torch.float64)
    poor = Adapter(
        full.config,
        {
            path: Slot(slot.A, torch.cat((slot.B[:, :2], 0 * slot.B[:, 2:]), dim=1), slot.scale)
            for path, slot in full.slots.items()
        },
    )
    for gauge in ("balanced", "parent"):
        child = mutate_with_report(poor, "svd_structured", 1, gauge=gauge).adapter
        for slot in child.slots.values():
            assert bool((slot.A.norm(dim=1) > 0).all())
            assert int((slot.B.norm(dim=0) == 0).sum()) == 2
    narrow = make_adapter(3, r=40, inputs=24, outputs=16)
    plain = mutate_with_report(narrow, "svd_structured", 1).adapter
    other = mutate_with_report(narrow, "svd_structured", 1, gauge="balanced").adapter
    assert distance(plain, other) < 1e-5


def test_wrong_names_and_the_command(make_adapter, tmp_path):
    with pytest.raises(LoraEvoError, match="expected one of operator, balanced, parent"):
        mutate_with_report(make_adapter(1), "svd_structured", 1, gauge="even")
    save_adapter(make_adapter(1), tmp_path / "p")
    words = ["mutate", "neftune", str(tmp_path / "p"), "--out", str(tmp_path / "c"), "--seed", "1"]
    done = CliRunner().invoke(main, [*words, "--set", "gauge=parent"])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "c")]).exit_code == 0
