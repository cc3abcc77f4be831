"""What the protocol of generation promises, on the stacked engine."""

from types import SimpleNamespace

import pytest
import torch

from lora_evo import Adapter, AdapterConfig, LoraEvoError, Slot, load_adapter, save_adapter
from lora_evo.model.engine import TokenRequest
from lora_evo.model.hf_engine import HFEngine
from lora_evo.model.stacked_lora import export_adapter


@pytest.fixture
def stack(tiny):
    return tiny.stacked()[1]


@pytest.fixture
def engine(stack):
    ids_only = SimpleNamespace(eos_token_id=1, bos_token=None, encode=lambda text, **_: [5])
    return HFEngine(stack, ids_only)


def asked(tiny, name):
    ids = (tiny.numbers(9, 6).mul(1000).long().abs() % 90 + 2).tolist()
    return [TokenRequest(name, tuple(ids), 12, 1.0, seed) for seed in range(4)]


def test_an_adapter_that_is_put_answers_from_the_next_call_on(tiny, stack, engine, tmp_path):
    other = export_adapter(stack, stack.index("t1"), None)
    before = engine.rollouts(asked(tiny, "t0"))
    wanted = [r.completion_ids for r in engine.rollouts(asked(tiny, "t1"))]
    assert [r.completion_ids for r in before] != wanted
    save_adapter(other, tmp_path / "saved")
    for version, source in ((17, other), (18, load_adapter(tmp_path / "saved"))):
        engine.put_adapter("t0", version, source)
        assert engine.versions["t0"] == version
        assert [r.completion_ids for r in engine.rollouts(asked(tiny, "t0"))] == wanted
    assert {r.adapter for r in engine.rollouts(asked(tiny, "t0"))} == {"t0"}


def test_what_does_not_fit_changes_nothing(tiny, stack, engine):
    before = engine.rollouts(asked(tiny, "t0"))
    path = next(iter(stack.layers))
    config = AdapterConfig.new(r=1, lora_alpha=1, target_modules=(path.rpartition(".")[2],))
    odd = Adapter(config, {path: Slot(torch.ones(1, 3), torch.ones(3, 1), 1.0)})
    with pytest.raises(LoraEvoError, match="covers 1 modules"):
        engine.put_adapter("t0", 1, odd)
    with pytest.raises(LoraEvoError, match="no adapter named 'x'"):
        engine.put_adapter("x", 1, export_adapter(stack, 0, None))
    with pytest.raises(LoraEvoError, match="a place in the stack"):
        engine.drop_adapter("t0")
    assert engine.versions == dict.fromkeys(tiny.members, 0)
    assert engine.rollouts(asked(tiny, "t0")) == before
