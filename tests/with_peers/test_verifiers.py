"""`vf-eval` loads the tasksets of the example and of `selfplay export-taskset`, and the example's
environment, and its traces have our rewards.

The model is a small server of the chat protocol whose replies are fixed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from meanwhile import serving

from selfplay.files.export import export_taskset

pytest.importorskip("verifiers.v1")
FOLDER = Path(__file__).parents[2] / "examples" / "code_verifier" / "verifiers"
RIGHT = {
    "return 9": "<answer>-3</answer>",
    "doubles": "```python\ndef double(x):\n    return x + x\n```",
    "their sum": "```python\nprint(sum(map(int, input().split())))\n```",
}


@contextmanager
def model(reply: Callable[[str], str]) -> Iterator[str]:
    """Serve a model that answers the last message; the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = reply(asked["messages"][-1]["content"])
            choice = {"index": 0, "delta": {"role": "assistant", "content": text}}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "fixed"}
            parts = [
                {"choices": [choice]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                {"choices": [], "usage": usage},
            ]
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for line in (*(json.dumps(head | part) for part in parts), "[DONE]"):
                self.wfile.write(f"data: {line}\n\n".encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/v1"


def traces(
    tmp_path: Path,
    reply: Callable[[str], str],
    *words: str,
    taskset: str = "code_tasks",
    folder: Path = FOLDER,
) -> list[Any]:
    """The traces of `vf-eval` on the taskset in a folder."""
    with model(reply) as url:
        done = subprocess.run(
            [
                *(Path(sys.executable).with_name("vf-eval"), taskset, *words),
                *("--model", "fixed", "--client.base-url", url),
                *("--client.api-key-var", "FIXED_KEY", "--no-push", "--no-rich"),
                *("--run.name", "run", "--output-dir", str(tmp_path)),
            ],
            env=os.environ
            | {
                "PYTHONPATH": str(folder),
                "FIXED_KEY": "none",
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = (tmp_path / "run" / "traces.jsonl").read_text().splitlines()
    return [trace for row in rows for trace in json.loads(row)["traces"]]


def test_single_tasks(tmp_path: Path) -> None:
    def reply(prompt: str) -> str:
        return next(text for words, text in RIGHT.items() if words in prompt)

    seat = ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]
    right = traces(tmp_path / "right", reply, *seat)
    assert [trace["rewards"]["right"]["score"] for trace in right] == [1.0] * 3
    wrong = traces(tmp_path / "wrong", lambda _: RIGHT["doubles"], *seat)
    assert sorted(trace["rewards"]["right"]["score"] for trace in wrong) == [0.0, 0.0, 1.0]


def test_a_taskset_that_selfplay_exported(tmp_path: Path) -> None:
    task = {"kind": "code_o", "program": "def f(a):\n    return a", "input": "1", "output": "1"}
    rows = [task, task | {"input": "2", "output": "2"}]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    export_taskset(tmp_path / "tasks.jsonl", tmp_path / "written")
    seat = ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]
    given = {"taskset": "written", "folder": tmp_path / "written"}
    found = traces(tmp_path / "out", lambda _: "<answer>2</answer>", *seat, **given)
    assert sorted(trace["rewards"]["right"]["score"] for trace in found) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("program", "scores", "earned"),
    [
        ("def f(x):\n    return x + 1", [1.0, 0.0, 1.0, 0.0], 0.5),
        ("def f(x):\n    return x + 2", [0.0] * 4, 0.0),
        ("import os\ndef f(x):\n    return 1", [], -1.0),
    ],
)
def test_proposer_and_solver(
    tmp_path: Path, program: str, scores: list[float], earned: float
) -> None:
    attempts: list[str] = []

    def reply(prompt: str) -> str:
        if prompt.startswith("Write a deterministic"):
            return f"```python\n{program}\n```\n```input\n7\n```"
        attempts.append(prompt)
        return "<answer>8</answer>" if len(attempts) % 2 else "<answer>7</answer>"

    seats = ["--env.proposer.runtime.type", "subprocess", "--env.solver.runtime.type", "subprocess"]
    found = traces(tmp_path, reply, "--env.id", "propose_and_solve", "--select.limit", "1", *seats)
    seen = [(trace["agent"]["name"], trace["rewards"]) for trace in found]
    assert [one["right"]["score"] for name, one in seen if name == "solver"] == scores
    assert [one["proposal"]["score"] for name, one in seen if name == "proposer"] == [earned]
