"""Embeddings and convolutions: PEFT is the judge of what is read, bred and written."""

import warnings

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from lora_evo import (
    OPERATORS,
    Adapter,
    AdapterConfig,
    LoraEvoError,
    Slot,
    adapter_hash,
    content_hash,
    cross_directory,
    load_adapter,
    mutate_directory,
    save_adapter,
    verify,
)
from lora_evo.cli import main
from lora_evo.files.layout import LINEAR, Layout

pytestmark = pytest.mark.filterwarnings("ignore")

WEIGHTS = "adapter_model.safetensors"
TARGETS = ["words", "pixels", "wave", "out"]
LAYOUTS = {
    "out": LINEAR,
    "pixels": Layout("conv", (3, 2)),
    "wave": Layout("conv", (3,)),
    "words": Layout("embedding"),
}


class Mixed(torch.nn.Module):
    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(11, 6)
        self.pixels = torch.nn.Conv2d(2, 4, (3, 2), groups=groups)
        self.wave = torch.nn.Conv1d(6, 5, 3, padding=1, bias=False)
        self.out = torch.nn.Linear(5, 7)

    def forward(self, ids, image):
        read = self.wave(self.words(ids).transpose(1, 2)).transpose(1, 2)
        return self.out(torch.tanh(read)).sum() * self.pixels(image)


def base(groups=1):
    torch.manual_seed(0)
    return Mixed(groups).double()


def inputs():
    noise = torch.Generator().manual_seed(5)
    ids = torch.randint(0, 11, (2, 8), generator=noise)
    return ids, torch.randn(1, 2, 6, 5, dtype=torch.float64, generator=noise)


def by_hand(folder):
    """The forward of the base model with every update merged into its dense weight."""
    model = base()
    with torch.no_grad():
        for path, slot in load_adapter(folder).slots.items():
            update = slot.scale * slot.B.double() @ slot.A.double()
            weight = model.get_submodule(path).weight
            weight += (update.T if slot.layout.kind == "embedding" else update).reshape(
                weight.shape
            )
    return model(*inputs())


def in_peft(folder):
    peft = pytest.importorskip("peft")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*missing adapter keys.*")
        return peft.PeftModel.from_pretrained(base(), folder).eval()(*inputs())


@pytest.fixture(params=["plain", "rslora and patterns"])
def home(request, tmp_path):
    peft = pytest.importorskip("peft")
    extra = {"use_rslora": True, "rank_pattern": {"wave": 2}, "alpha_pattern": {"words": 3}}
    for number in (1, 2):
        config = peft.LoraConfig(
            r=4, lora_alpha=8, target_modules=TARGETS, **({} if request.param == "plain" else extra)
        )
        model = peft.get_peft_model(base(), config)
        noise = torch.Generator().manual_seed(number)
        with torch.no_grad():
            for name, value in model.named_parameters():
                if "lora_" in name:
                    value.copy_(0.3 * torch.randn(value.shape, generator=noise))
        model.save_pretrained(tmp_path / f"p{number}", save_embedding_layers=False)
    return tmp_path


def test_all_kinds_of_layers_are_read_as_matrices_and_written_back(home):
    adapter = load_adapter(home / "p1")
    assert {path: slot.layout for path, slot in adapter.slots.items()} == LAYOUTS
    assert adapter.slots["pixels"].A.shape == (4, 12)
    assert adapter.slots["words"].A.shape == (4, 11)
    expected = in_peft(home / "p1")
    assert torch.allclose(by_hand(home / "p1"), expected, atol=1e-10)
    save_adapter(adapter, home / "again")
    assert torch.equal(in_peft(home / "again"), expected)
    one, two = (load_file(home / name / WEIGHTS) for name in ("p1", "again"))
    assert {name: value.shape for name, value in one.items()} == {
        name: value.shape for name, value in two.items()
    }
    assert content_hash(home / "again") == content_hash(home / "p1") == adapter_hash(adapter)


@pytest.mark.parametrize("name", OPERATORS)
def test_children_of_every_operator_load_in_peft(home, name):
    operator = OPERATORS[name]
    if operator.kind == "mutation":
        mutate_directory(name, home / "p1", home / "c", seed=1)
    else:
        weights = [2.0, 1.0] if "fitness" in operator.defaults else None
        extra = {"fitness": weights} if weights else {}
        cross_directory(name, [home / "p1", home / "p2"], home / "c", seed=1, **extra)
    assert load_adapter(home / "c").slots["pixels"].layout == LAYOUTS["pixels"]
    found = in_peft(home / "c")
    assert torch.allclose(by_hand(home / "c"), found, atol=1e-9)
    # factor_xes gives the better of two parents back.
    assert torch.allclose(found, in_peft(home / "p1"), atol=1e-6) == (name == "factor_xes")
    assert verify(home / "c").identical


def test_grouped_convolutions_are_refused_by_name(tmp_path):
    peft = pytest.importorskip("peft")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = peft.LoraConfig(r=4, target_modules=["pixels"])
        peft.get_peft_model(base(groups=2), config).save_pretrained(tmp_path / "p")
    with pytest.raises(LoraEvoError, match=r"pixels is a convolution in 2 groups.*target_modules"):
        load_adapter(tmp_path / "p")


def saved(folder, layout, a, b):
    config = AdapterConfig.new(r=2, lora_alpha=4, target_modules=["x"])
    slot = Slot(a, b, config.scale("x"), layout)
    save_adapter(Adapter(config, {"x": slot}), folder)
    return folder


def test_the_content_hash_sees_the_layout_and_is_unchanged_for_linear_layers(tmp_path):
    a, b = torch.arange(18.0).reshape(2, 9), torch.arange(6.0).reshape(3, 2)
    kinds = (LINEAR, Layout("embedding"), Layout("conv", (3, 3)), Layout("conv", (9,)))
    hashes = [content_hash(saved(tmp_path / str(kind), kind, a, b)) for kind in kinds]
    assert len(set(hashes)) == 4
    assert hashes[0] == ("sha256:0bb2a839086458eb4879b43a5ccc3111aca755a7e78bb8c6e46ec2eadbd45ae7")


def test_parents_must_hold_layers_of_one_kind(tmp_path):
    a, b = torch.ones(2, 9), torch.ones(3, 2)
    one = saved(tmp_path / "one", LINEAR, a, b)
    two = saved(tmp_path / "two", Layout("conv", (3, 3)), a, b)
    with pytest.raises(LoraEvoError, match="linear in parent 1 and conv 3x3 in parent 2"):
        cross_directory("average", [one, two], tmp_path / "c", seed=1)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ((2, 3, 3, 3), (5, 2, 1, 2), "kernel of ones"),
        ((2, 3, 3, 3), (5, 3, 1, 1), "does not fit together"),
        ((2, 3, 3), (5, 2, 1, 1), "of a convolution"),
        ((2, 1, 1, 1, 1, 1), (5, 2, 1, 1, 1, 1), "of a convolution"),
        ((2, 3, 0), (5, 2, 1), "empty"),
        ((2,), (2,), "of a linear layer"),
    ],
)
def test_shapes_that_are_no_layer_are_refused(tmp_path, a, b, words):
    saved(tmp_path / "p", LINEAR, torch.ones(2, 3), torch.ones(5, 2))
    names = ("base_model.model.x.lora_A.weight", "base_model.model.x.lora_B.weight")
    tensors = dict(zip(names, (torch.ones(a), torch.ones(b)), strict=True))
    save_file(tensors, tmp_path / "p" / WEIGHTS)
    with pytest.raises(LoraEvoError, match=words):
        load_adapter(tmp_path / "p")


def test_inspect_names_the_kind_of_layer(tmp_path):
    folder = saved(tmp_path / "p", Layout("conv", (3, 3)), torch.ones(2, 9), torch.ones(3, 2))
    shown = CliRunner().invoke(main, ["inspect", str(folder)])
    assert "conv 3x3" in shown.stdout


def test_a_slot_must_fit_its_kernel():
    config = AdapterConfig.new(r=2, lora_alpha=4, target_modules=["x"])
    slot = Slot(torch.ones(2, 8), torch.ones(3, 2), config.scale("x"), Layout("conv", (3, 3)))
    with pytest.raises(LoraEvoError, match="not a multiple"):
        Adapter(config, {"x": slot})
