"""PEFT loads the children of crossovers with the forward that their factors say."""

import pytest
import torch

from lora_evo import cross, load_adapter, save_adapter
from lora_evo.operators.crossovers.average import AVERAGE
from lora_evo.operators.crossovers.dare import DARE
from lora_evo.operators.crossovers.extrapolate import EXTRAPOLATE
from lora_evo.operators.crossovers.svd_subspace import SVD_SUBSPACE
from lora_evo.operators.crossovers.xes import XES

pytestmark = pytest.mark.filterwarnings("ignore")


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q_proj = torch.nn.Linear(12, 20)
        self.v_proj = torch.nn.Linear(20, 12)

    def forward(self, x):
        return self.v_proj(torch.tanh(self.q_proj(x)))


def trained_by_peft(folder, seed, **settings):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["q_proj", "v_proj"], **settings)
    model = peft.get_peft_model(Tiny().double(), config)
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_" in name:
                value.copy_(0.3 * torch.randn(value.shape, generator=noise))
    model.save_pretrained(folder)


@pytest.mark.parametrize("operator", [AVERAGE, EXTRAPOLATE, SVD_SUBSPACE, DARE, XES])
def test_children_reload_with_the_same_forward(tmp_path, operator):
    peft = pytest.importorskip("peft")
    trained_by_peft(tmp_path / "a", 1, r=4, lora_alpha=8, rank_pattern={"v_proj": 3})
    trained_by_peft(tmp_path / "b", 2, r=6, lora_alpha=3, use_rslora=True)
    parents = [load_adapter(tmp_path / name) for name in "ab"]
    given = {"fitness": [1, 2]} if operator is XES else {}
    child = cross(parents, operator.name, 7, **given)
    save_adapter(child, tmp_path / "child")
    x = torch.randn(5, 12, dtype=torch.float64)
    merged = Tiny().double()
    with torch.no_grad():
        for path, slot in child.slots.items():
            merged.get_submodule(path).weight += slot.scale * slot.B.double() @ slot.A.double()
    loaded = peft.PeftModel.from_pretrained(Tiny().double(), tmp_path / "child").eval()
    torch.testing.assert_close(loaded(x), merged(x), atol=1e-6, rtol=1e-6)
    assert not torch.allclose(merged(x), Tiny().double()(x), atol=1e-2)
