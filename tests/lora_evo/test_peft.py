"""PEFT is the judge: what it saves we read, what we write it loads with the same forward."""

import pytest
import torch
from by_hand import dense, same
from lora_evo_command import call

from lora_evo import (
    Adapter,
    AdapterConfig,
    LoraEvoError,
    Slot,
    content_hash,
    load_adapter,
    save_adapter,
)

peft = pytest.importorskip("peft")
pytestmark = pytest.mark.filterwarnings("ignore")


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj = torch.nn.Linear(12, 20)
        self.v_proj = torch.nn.Linear(20, 12)

    def forward(self, x):
        return x + self.v_proj(torch.tanh(self.q_proj(x)))


class Tiny(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def base():
    torch.manual_seed(0)
    return Tiny().double()


def forward_by_hand(adapter, x):
    """The base model with every update s*B*A merged into its dense weight."""
    model = base()
    with torch.no_grad():
        for path, slot in adapter.slots.items():
            model.get_submodule(path).weight += dense(slot)
    return model(x)


@pytest.fixture(params=["plain", "rslora", "patterns"])
def saved_by_peft(request, tmp_path):
    extra = {
        "plain": {},
        "rslora": {"use_rslora": True},
        "patterns": {"rank_pattern": {r"layers\.1\.q_proj": 2}, "alpha_pattern": {"v_proj": 3}},
    }[request.param]
    for number in (1, 2):
        config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], **extra)
        model = peft.get_peft_model(base(), config)
        noise = torch.Generator().manual_seed(number)
        with torch.no_grad():
            for name, value in model.named_parameters():
                if "lora_" in name:
                    value.copy_(0.3 * torch.randn(value.shape, generator=noise))
        model.save_pretrained(tmp_path / f"p{number}")
    return tmp_path


def forward_in_peft(folder, x):
    return peft.PeftModel.from_pretrained(base(), folder).eval()(x)


def test_reads_what_peft_saves_and_peft_reads_it_back(saved_by_peft):
    x = torch.randn(5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    adapter = load_adapter(saved_by_peft / "p1")
    expected = forward_in_peft(saved_by_peft / "p1", x)
    assert torch.allclose(forward_by_hand(adapter, x), expected, atol=1e-10)
    save_adapter(adapter, saved_by_peft / "again")
    assert torch.equal(forward_in_peft(saved_by_peft / "again", x), expected)
    assert content_hash(saved_by_peft / "again") == content_hash(saved_by_peft / "p1")


def started(start):
    """A float model with PEFT's adapter of this start, and a copy of its plain weights."""
    model = base().float()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    config = peft.LoraConfig(
        r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], init_lora_weights=start
    )
    return peft.get_peft_model(model, config), before


@pytest.mark.parametrize(
    "start", [True, "gaussian", "orthogonal", "mica", "pissa_niter_2", "OLoRA"]
)
def test_a_start_is_refused_where_peft_takes_it_out_of_the_base(tmp_path, start):
    tuned, before = started(start)
    now = {
        key.replace(".base_layer", ""): kept
        for key, kept in tuned.base_model.model.state_dict().items()
    }
    changed = [name for name, value in before.items() if not torch.equal(now[name], value)]
    tuned.save_pretrained(tmp_path / "p")
    if changed:
        with pytest.raises(LoraEvoError, match=f"init_lora_weights is '{start}'.*plain LoRA"):
            load_adapter(tmp_path / "p")
        with pytest.raises(LoraEvoError, match="plain LoRA"):
            Adapter.from_peft(tuned)
        said = call("inspect", tmp_path / "p", code=2).stderr
        assert "path_initial_model_for_weight_conversion" in said
        assert said.count("\n") == 1
    else:
        assert same(load_adapter(tmp_path / "p"), Adapter.from_peft(tuned))


@pytest.mark.parametrize("start", ["pissa", "olora"])
def test_what_peft_converts_to_a_plain_lora_is_read(tmp_path, start):
    tuned, _ = started(start)
    tuned.save_pretrained(tmp_path / "untrained")
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_" in name:
                weight += 0.1 * torch.randn_like(weight)
    tuned.save_pretrained(
        tmp_path / "p", path_initial_model_for_weight_conversion=str(tmp_path / "untrained")
    )
    x = torch.linspace(-1, 1, 24).reshape(2, 12)
    ours = forward_by_hand(load_adapter(tmp_path / "p"), x.double())
    torch.testing.assert_close(ours.float(), tuned(x), rtol=1e-4, atol=1e-4)


def test_to_a_live_model_and_back(saved_by_peft):
    x = torch.randn(5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    one, two = (load_adapter(saved_by_peft / name) for name in ("p1", "p2"))
    model = one.to_peft(base())
    assert torch.equal(model.eval()(x), forward_in_peft(saved_by_peft / "p1", x))
    assert two.to_peft(model, "second", is_trainable=True) is model
    model.set_adapter("second")
    assert torch.equal(model(x), forward_in_peft(saved_by_peft / "p2", x))
    assert isinstance(model, peft.PeftModel)
    for name, adapter in (("default", one), ("second", two)):
        found = Adapter.from_peft(model, name)
        assert same(found, adapter)
        assert found.config.fingerprint() == adapter.config.fingerprint()
    with torch.no_grad():
        model.base_model.model.layers[0].q_proj.lora_B["second"].weight.zero_()
    assert not Adapter.from_peft(model, "second").slots["layers.0.q_proj"].B.any()


def test_a_live_model_that_does_not_fit_is_refused(saved_by_peft):
    adapter = load_adapter(saved_by_peft / "p1")
    model = adapter.to_peft(base())
    with pytest.raises(LoraEvoError, match="no PEFT adapter 'mine'; it has: default"):
        Adapter.from_peft(model, "mine")
    with pytest.raises(LoraEvoError, match="it has: none"):
        Adapter.from_peft(base())
    with pytest.raises(LoraEvoError, match="'default' already"):
        adapter.to_peft(model)
    with pytest.raises(LoraEvoError, match=r"no module layers\.0\.q_proj \(6 of 6"):
        adapter.to_peft(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_number_types_stay_through_a_live_model(dtype):
    config = AdapterConfig(4, 8, ("q_proj",), rest={"peft_type": "LORA"})
    a, b = torch.linspace(-1, 1, 48).view(4, 12), torch.linspace(-2, 1, 80).view(20, 4)
    slots = {f"layers.{n}.q_proj": Slot(a.to(dtype), b.to(dtype) + n, 2.0) for n in range(3)}
    adapter, x = Adapter(config, slots), torch.linspace(-1, 1, 12)[None]
    for kind in (torch.float32, torch.bfloat16):
        model = adapter.to_peft(base().to(kind))
        adapter.to_peft(model, "second")
        for name in ("default", "second"):
            assert same(Adapter.from_peft(model, name), adapter)
        assert model(x.to(kind)).dtype == kind
        model.base_model.model.layers[0].q_proj.lora_A["default"].weight.data.zero_()
        assert same(Adapter.from_peft(model, "second"), adapter)
    trained = adapter.to_peft(base().float(), is_trainable=True)
    assert {p.dtype for p in trained.parameters() if p.requires_grad} <= {torch.float32}


def test_an_adapter_of_transformers_own_is_read(tmp_path):
    pytest.importorskip("transformers")
    from small_models import small_model

    settings = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "init_lora_weights": False}
    alphas = {"0.self_attn.q_proj": 3, "self_attn.q_proj": 5}
    model = small_model(num_hidden_layers=2)
    for name in ("default", "mine"):
        torch.manual_seed(len(name))
        model.add_adapter(peft.LoraConfig(**settings, alpha_pattern=alphas), name)
    for name in ("default", "mine"):
        found = Adapter.from_peft(model, name)
        model.set_adapter(name)
        model.save_pretrained(tmp_path / name)
        assert same(found, load_adapter(tmp_path / name))
        assert found.config.alpha("model.layers.0.self_attn.q_proj") == 3
        for path, slot in found.slots.items():
            wanted = model.get_submodule(path).get_delta_weight(name)
            assert torch.allclose(dense(slot).float(), wanted, atol=1e-6)
    with pytest.raises(LoraEvoError, match="it has: default, mine"):
        Adapter.from_peft(model, "other")
