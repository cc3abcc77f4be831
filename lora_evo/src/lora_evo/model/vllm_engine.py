"""Rollouts by vLLM: every version of an adapter is served under a new name.

vLLM caches keys and values by an adapter's name and path, so that a version with an old name or
path would use the cache of the previous one. Here `t0@v17` is written and added before `t0@v16` is
removed and, last, deleted. On a GPU the order of sums depends on the batch, so that samples may
differ from run to run.
"""

import os
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from lora_evo import Adapter, AdapterConfig, Slot, save_adapter
from lora_evo.errors import EngineStopped, LoraEvoError
from lora_evo.files import drafting, sweep
from lora_evo.model.base import BaseModel, Shapes, check_shapes
from lora_evo.model.engine import Engine, Request, Rollout, Samples, unknown_adapter
from lora_evo.model.vllm_server import ServedModel, Serving, VLLMOptions, import_vllm

_SEEDS = 2**63
"""vLLM's seeds are below this."""
_BASE = "base@zero"
"""Label of the zero adapter that the base's rows use."""
_DRAFTS = "populab-adapters"
_UNSERVED = ("lm_head", "embed_tokens")
Decode: TypeAlias = Callable[[Sequence[int]], str]


@dataclass(frozen=True)
class _Held:
    """One version of an adapter in vLLM."""

    label: str
    number: int
    """vLLM's id; never reused."""
    folder: Path
    version: int


class VLLMEngine(Engine):
    """Samples through `vllm.LLM`, on a GPU in a process of its own.

    base: for its settings and tokenizer only. shapes: its linear layers by path. threads: of torch,
    on a CPU; 0 keeps their number. Every call raises EngineStopped if vLLM fails; the engine cannot
    be used after that.
    """

    def __init__(
        self,
        base: BaseModel,
        serving: Serving,
        options: VLLMOptions,
        shapes: Shapes,
        *,
        threads: int = 0,
    ) -> None:
        super().__init__(base.model, base.tokenizer, options.max_rows, serving.length(options))
        self._serving, self._shapes = serving, shapes
        self._vllm = import_vllm(serving.device.type != "cpu")
        self._held: dict[str | None, _Held] = {}
        """By name; None is the zero adapter of the base's rows."""
        self._labels: set[str] = set()
        self._arrived: set[int] = set()
        """Numbers of the versions that vLLM has loaded since it woke up."""
        self._count = 0
        self._calls = 0
        values = (serving.max_adapters + 1) * serving.max_rank * sum(map(sum, shapes.values()))
        self._folder = AdapterFolder(4 * values)
        self._served = ServedModel(self._vllm.LLM, serving, options, threads)
        if serving.max_adapters:
            try:
                self._held[None] = self._add(_BASE, 0, zero_adapter(shapes))
            except BaseException:
                self.close()
                raise

    @property
    def versions(self) -> Mapping[str, int]:
        return {name: held.version for name, held in self._held.items() if name is not None}

    def put_adapter(self, name: str, version: int, adapter: Adapter) -> None:
        """Serve this version from the next call on; the previous one is removed after that."""
        check_adapter(name, adapter, self._shapes, self._serving.max_rank)
        before = self._held.get(name)
        self._held[name] = self._add(f"{name}@v{version}", version, adapter)
        if before is not None:
            self._remove(before)

    def drop_adapter(self, name: str) -> None:
        if name not in self.versions:
            raise unknown_adapter(name, self.versions)
        self._remove(self._held.pop(name))

    def _stream(self, requests: Sequence[Request]) -> Samples:
        if requests:
            self.restore()
        short = []
        for i, rollout in self._sampled(dict(enumerate(requests)), watch_text=True):
            # vLLM ended it at a stop text that the completion does not contain: if a prompt ends
            # within a character, vLLM's first decoded text includes the prompt's part of it.
            if rollout.finish_reason == "length" and (
                len(rollout.completion_ids) < requests[i].max_tokens
            ):
                short.append(i)
            else:
                yield i, rollout
        yield from self._sampled({i: requests[i] for i in short}, watch_text=False)

    def release(self) -> None:
        self._served.sleep()

    def restore(self) -> None:
        """Wake up. Sleep may silently drop adapters, so requested ones are loaded again."""
        if self._served.wake_up():
            self._arrived.clear()

    def close(self) -> None:
        self._served.close()
        self._folder.close()

    def _sampled(
        self, requests: dict[int, Request], *, watch_text: bool
    ) -> Iterator[tuple[int, Rollout]]:
        """Yield samples as they end, and remove them from `requests`."""
        numbers = self._add_requests(requests, watch_text) if requests else {}
        try:
            while requests:
                for output in self._served.call("sample", next_outputs):
                    i = numbers.get(output.request_id)
                    if i is not None:  # else of a stream that was closed
                        sampled = output.outputs[0]
                        yield i, rollout_of(requests.pop(i), sampled, self.end_tokens, self.decode)
        except GeneratorExit:
            with suppress(EngineStopped):  # the next call raises it
                self._served.call("end", lambda llm: llm.llm_engine.abort_request(list(numbers)))
            raise

    def _add_requests(self, requests: Mapping[int, Request], watch_text: bool) -> dict[str, int]:
        """Submit requests to vLLM; return their numbers by new request ids."""
        self._calls += 1
        names = {f"{self._calls}.{i}": i for i in requests}
        for version in self._held.values():
            if version.number not in self._arrived:
                self._register(version)

        def add(llm: Any) -> None:
            for name, i in names.items():
                request = requests[i]
                version = self._held.get(request.adapter)
                how = sampling_arguments(request, self.end_tokens, watch_text=watch_text)
                llm.llm_engine.add_request(
                    name,
                    {"type": "token", "prompt_token_ids": list(request.prompt_ids)},
                    self._vllm.SamplingParams(**how, output_kind=self._vllm.FINAL_ONLY),
                    lora_request=version and self._request(version),
                )

        self._served.call("sample", add)
        return names

    def _request(self, version: _Held, **how: bool) -> Any:
        return self._vllm.LoRARequest(version.label, version.number, str(version.folder), **how)

    def _add(self, label: str, version: int, adapter: Adapter) -> _Held:
        """Write a version under a new label, and register it."""
        self._count += 1
        if label in self._labels:
            label = f"{label}.{self._count}"
        self._labels.add(label)
        held = _Held(label, self._count, self._folder.write(label, adapter), version)
        try:
            self._register(held)
        except BaseException:
            shutil.rmtree(held.folder, ignore_errors=True)
            raise
        return held

    def _register(self, version: _Held) -> None:
        """Let vLLM load a version, again if necessary: its weights may be lost."""
        request = self._request(version, load_inplace=True)
        task = f"add {version.label}"
        if not self._served.call(task, lambda llm: llm.llm_engine.add_lora(request)):
            raise LoraEvoError(f"vLLM did not take the adapter {version.label}; use --engine hf")
        self._arrived.add(version.number)

    def _remove(self, version: _Held) -> None:
        """Remove a version; its folder last, since vLLM dies if it does not find one."""
        self._served.call(
            f"remove {version.label}", lambda llm: llm.llm_engine.remove_lora(version.number)
        )
        self._arrived.discard(version.number)
        shutil.rmtree(version.folder, ignore_errors=True)


def next_outputs(llm: Any) -> list[Any]:
    """Run vLLM until requests end; return their outputs. Raises RuntimeError if it has none."""
    while llm.llm_engine.has_unfinished_requests():
        if ended := [output for output in llm.llm_engine.step() if output.finished]:
            return ended
    raise RuntimeError("it lost its requests")


def sampling_arguments(
    request: Request, end_tokens: Sequence[int], *, watch_text: bool = True
) -> dict[str, Any]:
    """Return the arguments of `vllm.SamplingParams`; watch_text: end a row at a stop text."""
    watched = bool(request.stop) and watch_text
    same = ("temperature", "top_p", "top_k", "max_tokens")
    return {name: getattr(request, name) for name in same} | {
        "seed": request.seed % _SEEDS,
        "logprobs": 0,
        "stop_token_ids": list(end_tokens),
        "ignore_eos": True,
        "stop": list(request.stop) if watched else None,
        "detokenize": watched,
        "skip_special_tokens": False,
    }


def rollout_of(
    request: Request, sampled: Any, end_tokens: Sequence[int], decode: Decode
) -> Rollout:
    """Return the rollout of a `vllm.CompletionOutput`, cut after its first stop text."""
    ids = tuple(int(token) for token in sampled.token_ids)
    logprobs = tuple(
        float(table[token].logprob) for token, table in zip(ids, sampled.logprobs, strict=True)
    )
    ended = bool(ids) and ids[-1] in end_tokens
    cut = stopped_at(ids, request.stop, decode) if request.stop else None
    length = len(ids) if cut is None else cut
    why: Literal["stop", "length"] = "stop" if ended or cut is not None else "length"
    return Rollout(request.adapter, request.prompt_ids, ids[:length], logprobs[:length], why)


def stopped_at(ids: Sequence[int], stop: Sequence[str], decode: Decode) -> int | None:
    """Return the number of tokens up to the end of the first stop text; None without any."""

    def complete(length: int) -> bool:
        text = decode(ids[:length])
        return any(s in text for s in stop)

    if not complete(len(ids)):
        return None
    if not complete(len(ids) - 1):  # the usual case: vLLM ends there itself
        return len(ids)
    return bisect_left(range(len(ids)), True, key=complete)


def check_adapter(name: str, adapter: Adapter, shapes: Shapes, max_rank: int) -> None:
    """Raise LoraEvoError for an adapter that vLLM cannot serve."""
    for path, slot in adapter.slots.items():
        if path.rpartition(".")[2] in _UNSERVED:
            raise LoraEvoError(
                f"adapter {name!r} changes {path}, which vLLM does not serve; use --engine hf, or "
                "train without it in target_modules"
            )
        if len(slot.A) > max_rank:
            raise LoraEvoError(
                f"adapter {name!r} has rank {len(slot.A)} in {path}, the engine was opened for "
                f"{max_rank} at most"
            )
    check_shapes(f"adapter {name!r}", adapter, shapes, "the base")


def zero_adapter(shapes: Shapes) -> Adapter:
    """Return an adapter that changes nothing, for the base's rows.

    On a CPU, vLLM's rows without an adapter would use the last slot, with its old content.
    """
    path = next(path for path in shapes if path.rpartition(".")[2] not in _UNSERVED)
    inputs, outputs = shapes[path]
    config = AdapterConfig.new(r=1, lora_alpha=1, target_modules=(path.rpartition(".")[2],))
    return Adapter(config, {path: Slot(torch.zeros(1, inputs), torch.zeros(outputs, 1), 1.0)})


class AdapterFolder:
    """PEFT folders for vLLM, in shared memory if `room` bytes are free there, else in TMPDIR."""

    def __init__(self, room: int, memory: Path = Path("/dev/shm")) -> None:
        place = Path(tempfile.gettempdir())
        for used in (memory, place):
            sweep(used, _DRAFTS)
        if os.access(memory, os.W_OK | os.X_OK) and shutil.disk_usage(memory).free >= room:
            place = memory
        self._open = ExitStack()
        self._home = self._open.enter_context(drafting(place, _DRAFTS))

    def write(self, label: str, adapter: Adapter) -> Path:
        """Save an adapter in a folder of its own and return it. Raises EngineStopped."""
        folder = self._home / label
        try:
            save_adapter(adapter, folder)
        except OSError as error:
            raise EngineStopped(
                f"cannot write an adapter for vLLM to {self._home.parent.parent}: "
                f"{error.strerror or error}; make room there, or name another folder with TMPDIR"
            ) from error
        return folder

    def close(self) -> None:
        self._open.close()
