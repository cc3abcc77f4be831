"""The vllm engine on a stand-in for `vllm.LLM` that sleeps as on a GPU, and fails when it is to."""

import gc
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from lora_evo import Adapter, AdapterConfig, Slot
from lora_evo.errors import EngineStopped
from lora_evo.model import Request, Serving, VLLMEngine, VLLMOptions
from lora_evo.model import vllm_engine as module
from lora_evo.model.vllm_server import WorkerCalls

PATH = "model.layers.0.self_attn.q_proj"
MEMBERS = ("t0", "s0")
ASKED = [Request((1, 2), name, 3, 1.0, i) for i, name in enumerate((None, *MEMBERS))]


class Machine:
    """What happened, in order, and how many of the next calls of each name fail."""

    def __init__(self):
        self.calls, self.failing = [], Counter()

    def note(self, name):
        self.calls.append(name)
        if self.failing[name]:
            self.failing[name] -= 1
            raise RuntimeError(f"{name} failed\nand so on")


class LLM:
    """What is used of `vllm.LLM`. Its slots are lost while it sleeps, its numbers are not.

    As in vLLM, an adapter of a number that is known is not read again, unless it is to replace
    what is there. The log-probability of every token is the sum of the slot.
    """

    def __init__(self, machine, **arguments):
        self.note = machine.note
        self.note("LLM")
        self.slots, self.asleep, self.waiting = {}, False, []
        self.llm_engine = self.engine_core = self
        self.shutdown = partial(self.note, "shutdown")

    def add_lora(self, request):
        self.note("add_lora")
        if request.number not in self.slots or request.load_inplace:
            tensors = load_file(f"{request.path}/adapter_model.safetensors")
            self.slots[request.number] = sum(float(t.sum()) for t in tensors.values())
        return True

    def remove_lora(self, number):
        self.note("remove_lora")
        return self.slots.pop(number, None) is not None

    def sleep(self, level):
        self.note("sleep")
        self.asleep = level == 0

    def release_kv_cache_memory(self):
        self.note("release_kv_cache_memory")
        self.slots = dict.fromkeys(self.slots, -99.0)

    def collective_rpc(self, name):
        assert hasattr(WorkerCalls, name)
        self.note(name)

    def wake_up(self, tags):
        self.note("wake_up")
        self.asleep = set(tags) != {"kv_cache", "scheduling"}
        return not self.asleep

    def add_request(self, name, prompt, sampling, *, lora_request):
        self.note("add_request")
        self.waiting.append((name, sampling, lora_request))

    def has_unfinished_requests(self):
        return bool(self.waiting)

    def abort_request(self, names):
        self.note("abort_request")
        self.waiting = [row for row in self.waiting if row[0] not in names]

    def step(self):
        """One request ends, the last that was added first."""
        self.note("step")
        if self.asleep:
            raise RuntimeError("asked while asleep")
        name, sampling, request = self.waiting.pop()
        self.add_lora(request)
        table = {7: SimpleNamespace(logprob=self.slots[request.number])}
        count = sampling.max_tokens - bool(sampling.stop)  # it takes itself to be at a stop text
        row = SimpleNamespace(token_ids=[7] * count, logprobs=[table] * count)
        return [SimpleNamespace(request_id=name, finished=True, outputs=[row])]


def lora_request(name, number, path, load_inplace=False):
    return SimpleNamespace(name=name, number=number, path=path, load_inplace=load_inplace)


def adapter(value):
    config = AdapterConfig.new(r=1, lora_alpha=1, target_modules=("q_proj",))
    return Adapter(config, {PATH: Slot(torch.full((1, 6), value), torch.ones(4, 1), 1.0)})


@pytest.fixture
def machine(monkeypatch):
    made = Machine()
    names = {"LLM": partial(LLM, made), "SamplingParams": SimpleNamespace}
    names |= {"LoRARequest": lora_request, "FINAL_ONLY": "final"}
    monkeypatch.setattr(module, "import_vllm", lambda own_process: SimpleNamespace(**names))
    monkeypatch.setattr(torch.cuda, "empty_cache", partial(made.note, "empty_cache"))
    gc.freeze()  # what was here before is left out: collecting is quick
    yield made
    gc.unfreeze()


def opened(tiny):
    tokenizer = SimpleNamespace(eos_token_id=1, decode=lambda ids, **_: str(ids))
    serving = Serving("tiny", "float32", torch.device("cuda"), None, len(MEMBERS), max_rank=1)
    base = SimpleNamespace(model=tiny.qwen(), tokenizer=tokenizer)
    return VLLMEngine(base, serving, VLLMOptions(sleep=True), {PATH: (6, 4)})


@pytest.fixture
def engine(machine, tiny):
    found = opened(tiny)
    for value, name in enumerate(MEMBERS):
        found.put_adapter(name, 1, adapter(float(value + 1)))
    yield found
    machine.failing.clear()
    found.close()


def a_step(engine):
    """Return what is sampled after a sleep and a new version of one member."""
    engine.release()
    engine.restore()
    engine.put_adapter("s0", 2, adapter(5.0))
    return engine.generate(ASKED)


EXPECTED = [(0.0,) * 3, (10.0,) * 3, (34.0,) * 3]
CALLS = ("sleep", "release_kv_cache_memory", "empty_cache", "wake_up", "add_lora", "step")


def test_adapters_that_sleep_lost_are_read_again_and_none_twice(engine, machine):
    machine.calls.clear()
    assert [r.logprobs for r in a_step(engine)] == EXPECTED
    before_sampling = machine.calls[: machine.calls.index("step")]
    assert before_sampling.count("add_lora") == 3  # the new version, the member that stayed, zeros
    machine.calls.clear()
    engine.generate(ASKED)
    assert machine.calls[0] == "add_request"


def test_samples_are_there_before_all_have_ended(engine, machine):
    machine.calls.clear()
    samples = engine.stream(ASKED)
    assert next(samples)[0] == 2
    assert machine.calls.count("step") == 1
    samples.close()
    assert machine.calls[-1] == "abort_request"
    assert engine.generate(ASKED[:2]) == engine.generate(ASKED)[:2]


def test_what_ended_at_a_stop_text_that_is_not_there_is_asked_again(engine, machine):
    machine.calls.clear()
    (rollout,) = engine.generate([Request((1, 2), "t0", 3, 1.0, stop=("never",))])
    assert len(rollout.completion_ids) == 3
    assert machine.calls.count("add_request") == 2


def test_freed_memory_is_given_back_before_vllm_starts_and_before_it_wakes(engine, machine):
    assert machine.calls[:2] == ["empty_cache", "LLM"]
    engine.release()
    machine.calls.clear()
    engine.restore()
    assert machine.calls[:2] == ["empty_cache", "wake_up"]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_is_one_line_and_no_second_start(engine, machine, call):
    machine.calls.clear()
    machine.failing[call] = 1
    with pytest.raises(EngineStopped) as stopped:
        a_step(engine)
    assert f"({call} failed); if it comes back, try fewer rows" in str(stopped.value)
    assert len(str(stopped.value).splitlines()) == 1
    assert "LLM" not in machine.calls
