"""An engine of the members' own, as vLLM is one, that needs no vLLM."""

import torch

from lora_evo.model import HFEngine, load_base_model, stack_adapters
from selfplay.members.population import open_learner as open_shared


class SeparateEngine(HFEngine):
    """A stack of its own, which gets to know the members by what is put."""

    shares_parameters = False

    def __init__(self, adapters, *rest, **options):
        super().__init__(adapters, *rest, **options)
        self.put = []

    def put_adapter(self, name, version, adapter):
        if name not in self.adapters.members:
            self.adapters.members[self.adapters.index("free")] = name
        super().put_adapter(name, version, adapter)
        self.put.append(f"{name}@v{version}")

    def drop_adapter(self, name):
        self.adapters.members[self.adapters.index(name)] = "free"

    @property
    def versions(self):
        return {n: v for n, v in super().versions.items() if n in self._versions and n != "free"}


def open_separate(config):
    learner, shared = open_shared(config)
    base = load_base_model(config.base, torch.device("cpu"), config.dtype)
    stack = stack_adapters(
        base.model,
        learner.members,
        r=config.learner.r,
        lora_alpha=config.learner.lora_alpha,
        target_modules=config.learner.target_modules,
        seed=5,
    )
    return learner, SeparateEngine(stack, shared.tokenizer, max_rows=shared.max_rows)
