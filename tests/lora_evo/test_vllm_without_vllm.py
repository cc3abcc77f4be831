"""The parts of the vllm engine that need no vLLM: refusals, settings, files, stop texts."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from full_disk import no_file_above

from lora_evo import Adapter, AdapterConfig, EngineStopped, LoraEvoError, Slot, load_adapter
from lora_evo.model import open_engine
from lora_evo.model import vllm_server as installed
from lora_evo.model.engine import Request
from lora_evo.model.vllm_engine import (
    AdapterFolder,
    check_adapter,
    rollout_of,
    sampling_arguments,
)
from lora_evo.model.vllm_server import Serving, VLLMOptions, llm_arguments

CPU = torch.device("cpu")
SHAPES = {"model.layers.0.self_attn.q_proj": (6, 4), "lm_head": (6, 9)}
PATH = "model.layers.0.self_attn.q_proj"


def adapter(path=PATH, inputs=6, outputs=4, r=2, value=1.0):
    config = AdapterConfig.new(r=r, lora_alpha=2 * r, target_modules=(path.rpartition(".")[2],))
    slot = Slot(torch.full((r, inputs), value), torch.full((outputs, r), value), 2.0)
    return Adapter(config, {path: slot})


def test_another_version_is_refused_with_what_to_type(monkeypatch):
    monkeypatch.setattr(installed, "find_spec", lambda name: name)
    monkeypatch.setattr(installed, "version", lambda name: found)
    for found in ("0.32.0", "0.32.0+cpu", "0.32.1rc2"):
        assert installed.require_vllm() == found
    for found in ("0.31.4", "0.33.0", "?"):
        words = f"vLLM {re.escape(found)} is installed, expected 0.32; .* install 'vllm==0.32.*'"
        with pytest.raises(LoraEvoError, match=words):
            installed.require_vllm()


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("lora_evo.model.saved_adapters.require_vllm", lambda: "0.32.0")


def test_a_base_that_is_stored_in_float32_is_refused_before_vllm_opens(
    on_gpu, model_folder, adapter_folders, monkeypatch
):
    monkeypatch.setattr("lora_evo.model.saved_adapters.VLLMEngine", None)
    with pytest.raises(LoraEvoError, match="type --dtype bfloat16"):
        open_engine("vllm", str(model_folder), adapter_folders)


def test_settings_of_a_gpu_and_of_a_cpu():
    serving = Serving("m", "bfloat16", torch.device("cuda"), 4096, max_adapters=8, max_rank=20)
    options = VLLMOptions(0.45, sleep=True, max_rows=64, tensor_parallel_size=2)
    gpu = llm_arguments(serving, options)
    assert (gpu["max_loras"], gpu["max_cpu_loras"], gpu["max_lora_rank"]) == (9, 18, 32)
    assert gpu["logprobs_mode"] == "processed_logprobs"
    assert (gpu["max_model_len"], gpu["tensor_parallel_size"]) == (4096, 2)
    cpu = llm_arguments(replace(serving, device=CPU), replace(options, max_model_len=6000))
    assert cpu["enable_chunked_prefill"] is False
    assert cpu["max_num_batched_tokens"] >= cpu["max_model_len"] == 4096
    assert cpu["block_size"] % 32 == 0
    assert "enable_lora" not in llm_arguments(replace(serving, max_adapters=0), options)
    with pytest.raises(LoraEvoError, match=r"rank 513.*--engine hf"):
        llm_arguments(replace(serving, max_rank=513), options)


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (adapter(inputs=5), r"map 5 to 4 features, the base has 6 to 4"),
        (adapter(r=4), "has rank 4 .* opened for 2"),
        (adapter(path="model.layers.9.q_proj"), "the base has no linear module"),
        (adapter(path="lm_head", outputs=9), "which vLLM does not serve"),
    ],
)
def test_what_vllm_would_answer_wrongly_is_refused(odd, message):
    with pytest.raises(LoraEvoError, match=f"adapter 't0' .*{message}"):
        check_adapter("t0", odd, SHAPES, 2)


def test_versions_are_peft_folders_that_go_with_the_engine(tmp_path):
    folder = AdapterFolder(1, tmp_path)
    one, two = (folder.write(f"t0@v{n}", adapter(value=n)) for n in (1.0, 2.0))
    assert load_adapter(two).slots[PATH].A[0, 0] == 2.0
    with (
        no_file_above(64 << 10),
        pytest.raises(EngineStopped, match=f"for vLLM to {re.escape(str(tmp_path))}: "),
    ):
        folder.write("t0@v3", adapter(inputs=9000))
    assert one.exists()
    folder.close()
    assert not list(tmp_path.iterdir())


def letters(ids):
    return "".join(chr(96 + i) for i in ids)


def test_a_request_in_the_words_of_vllm():
    request = Request((1, 2), "t0", 7, 0.5, seed=2**63 + 5, stop=("x",))
    found = sampling_arguments(request, (3, 4))
    assert found["seed"] == 5
    assert found["stop_token_ids"] == [3, 4]
    assert (found["detokenize"], found["skip_special_tokens"]) == (True, False)
    unwatched = sampling_arguments(request, (3,), watch_text=False)
    assert (unwatched["detokenize"], unwatched["stop"]) == (False, None)


@pytest.mark.parametrize(
    ("ids", "stop", "kept", "why"),
    [
        ((1, 2, 3, 4), (), 4, "length"),
        ((1, 2, 3, 26), (), 4, "stop"),
        ((1, 2, 3, 4, 2, 3), ("zz", "bc"), 3, "stop"),
        ((1, 2, 3, 4), ("cba",), 4, "length"),
    ],
)
def test_samples_end_at_the_end_token_and_where_a_stop_text_is_whole(ids, stop, kept, why):
    sampled = SimpleNamespace(
        token_ids=list(ids), logprobs=[{i: SimpleNamespace(logprob=-i)} for i in ids]
    )
    request = Request((1,), "t0", 9, 1.0, stop=stop)
    rollout = rollout_of(request, sampled, (26,), letters)
    assert rollout.completion_ids == ids[:kept]
    assert rollout.logprobs == tuple(-i for i in ids[:kept])
    assert rollout.finish_reason == why
