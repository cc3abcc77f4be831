"""Ways in for other projects; tests/with_peers has those projects themselves."""

import asyncio
import pickle
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from programs import python

from code_verifier import Grade, Sandbox, SandboxUnavailable, rewards
from code_verifier.answers import find_answer, find_program, opened_thought, without_thoughts
from code_verifier.errors import CodeVerifierError
from code_verifier.rewards import completion_text, trl_reward, verifiers_reward

EXAMPLES = Path(__file__).parents[2] / "examples" / "code_verifier"
SQUARE = "def f(x):\n    return x * x"
ROW = {"kind": "code_i", "program": SQUARE, "output": "9"}


FAULT = Grade(0.0, "sandbox_error: the fork server was lost", status="sandbox_error")


def failing():
    """A sandbox whose every grade is a fault."""
    return Mock(workers=1, grade=Mock(return_value=FAULT))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>maybe <answer>1</answer></think> <answer> 2 </answer>", "2"),
        ("<answer>1</answer> no, <answer>2</answer> done", "2"),
        ("so\n```python\ndef f(): pass\n```\nor\n```output\n[1]\n```\n", "def f(): pass"),
        ("<answer>\n```input\n'a', 2\n```\n</answer>", "'a', 2"),
        ("````\n```\ninner\n```\n````", "```\ninner\n```"),
        ("```python\nleft open", None),
        ("42", None),
        ("<answer>  </answer>", None),
        ("</answer><answer>", None),
        ("<answer>open", None),
        ("", None),
    ],
)
def test_the_answer_in_a_completion(text, answer):
    assert find_answer(text) == answer


PROGRAM = "def f(x):\n    return x"
FENCED = f"```python\n{PROGRAM}\n```\n"
DOCUMENTED = 'def f(x):\n    """\n    ```\n    f(1)\n    ```\n    """\n    return x'
SEPARATED = "TEXT = 'a\x0cb\x1c\u2028'\n" + PROGRAM


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (FENCED + "Run:\n```bash\npython f.py\n```", PROGRAM),
        (FENCED + "It prints\n```\n6\n```", PROGRAM),
        (FENCED + "```\n$ python f.py\n```", PROGRAM),
        (FENCED + "```python\n>>> f(1)\n1\n```", PROGRAM),
        (f"Code: ```python\n{PROGRAM}\n```", PROGRAM),
        (f"A fence is ```python and so on.\n{FENCED}", PROGRAM),
        (f"~~~\n{PROGRAM}\n~~~\n~~~sh\nls\n~~~", PROGRAM),
        ("1. so\n   ```py\n   def f(x):\n       return x\n   ```", PROGRAM),
        (f"```python\n{DOCUMENTED}\n```\n", DOCUMENTED),
        (f"```python\n{SEPARATED}\n```\n", SEPARATED),
        (FENCED.replace("\n", "\r\n"), PROGRAM.replace("\n", "\r\n")),
        (FENCED.replace("\n", "\r"), PROGRAM.replace("\n", "\r")),
        (f"<answer>```python\n{PROGRAM}</answer>", PROGRAM),
        (FENCED + "```python\nprint(f(1))\n```", PROGRAM),
    ],
)
def test_the_program_in_a_completion(text, program):
    assert find_program(text, "f") == program
    if "print" not in text:
        assert find_answer(text) == program


@pytest.mark.parametrize("language", ["bash", "sh", "console", "output", "text", "json", "cpp"])
def test_no_block_of_another_kind_is_the_program(language):
    assert find_program(f"```{language}\nprint(1)\n```") is None


def test_a_value_stands_in_the_last_block():
    assert find_answer(FENCED + "```output\n[1]\n```", value=True) == "[1]"
    assert find_answer("<answer>```input\n1, 2\n```\n```sh\nls\n```</answer>", True) == "1, 2"


def test_hostile_completions_take_linear_work():
    """Many openings; work that grows with their square would never end."""
    for text in (
        *("```a`\n", "<answer>", "```a\n", "x ```a\n", "```python\n(", "`", "~~~a\n```b\n"),
        *("<think>", "'</think>'", "<think>'[THINK]", "[THINK]```\n"),
    ):
        assert find_answer(text * 100_000) is None
    assert find_answer("```python\n(\n```\n" * 10_000) == "("


@pytest.mark.parametrize(
    "thought",
    [
        "<think>{}</think>", "<thinking>{}</thinking>", "<thought>{}</thought>",
        "[THINK]{}[/THINK]", "<reasoning>{}</reasoning>", "<seed:think>{}</seed:think>",
        "◁think▷{}◁/think▷",
        "<|begin_of_thought|>{}<|end_of_thought|>", "<|START_THINKING|>{}<|END_THINKING|>",
        "<|inner_prefix|>{}<|inner_suffix|>", "<|channel>thought\n{}<channel|>",
        "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
    ],
)  # fmt: skip
def test_no_draft_in_a_thought_is_an_answer(thought):
    draft = FENCED.replace("x", "draft")
    opening, closing = thought.split("{}")
    mark = closing.removeprefix("<|end|><|start|>assistant")
    for drafted in (draft, f"I close it by `{mark}`\n{draft}", f"{opening}I think\n{draft}"):
        whole = thought.format(drafted)
        assert find_program(whole + FENCED, "f") == PROGRAM
        assert find_program(drafted + closing + FENCED, "f") == PROGRAM, "the prompt opened it"
        assert find_program(whole) is None
        cut = whole.removesuffix(closing)
        assert (find_program(cut), find_answer(cut, value=True)) == (None, None)
    assert find_program(FENCED + thought.format("Is it right?"), "f") == PROGRAM
    assert opened_thought(f"<user>...{opening}\n") == opening.strip()
    assert opened_thought(f"Q{opening}\n\n{closing}\n") == ""


@pytest.mark.parametrize("mark", ["<think>", "</think>", "[/THINK]"])
def test_marks_in_a_program_are_text(mark):
    program = f"def f(x):\n    return x.split({mark!r})[-1] + r'{mark}.*'"
    assert find_program(f"<think>hm</think>\n```python\n{program}\n```") == program
    assert without_thoughts(f"a = {mark!r}") == f"a = {mark!r}"


def test_prompts_tell_where_a_thought_begins(sandbox):
    cut = "Let me try\n<answer>7</answer> No wait"
    prompts = ["Q<think>\n", "Q<think>\n", "Q<think>\n\n</think>\n", [{"role": "user"}]]
    completions = [cut, f"{cut}</think><answer>8</answer>", cut, cut]
    columns = {"kind": ["code_o"] * 4, "output": ["7", "8", "7", "7"]}
    assert trl_reward(sandbox)(completions, prompts=prompts, **columns) == [0.0, 1.0, 1.0, 1.0]
    assert trl_reward(sandbox)(completions, **columns) == [1.0, 1.0, 1.0, 1.0]


def test_the_text_of_a_completion():
    chat = [
        {"role": "assistant", "content": "first"},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
        {"role": "tool", "content": "no"},
    ]
    assert completion_text(chat) == "a"
    assert completion_text([SimpleNamespace(role="assistant", content="b")]) == "b"
    assert completion_text("c") == "c"
    for nothing in ([], None, 3, [{"role": "assistant", "content": None}], [7]):
        assert completion_text(nothing) == ""


def test_rewards_of_a_mixed_batch(sandbox):
    reward = trl_reward(sandbox)
    assert reward.__name__ == "task_reward"
    chat = [{"role": "assistant", "content": "<answer>-3</answer>"}]
    texts = ["<answer>4</answer>", f"```python\n{SQUARE}\n```", "no", "```\n9\n```", ""]
    found = reward(
        prompts=["p"] * 6,
        completions=[chat, *texts],
        completion_ids=[[1]] * 6,
        kind=["code_i", "code_i", "code_f", "code_o", "code_o", "code_f"],
        program=[SQUARE, SQUARE, None, None, None, None],
        output=["9", "9", None, "9", "9", None],
        inputs=[None, None, ["1", "2"], None, None, ["1", "2"]],
        outputs=[None, None, ("1", "4"), None, None, ["1", "4"]],
        visible=[None, None, 1, None, None, 0],
    )
    assert found == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]


def test_a_fault_of_ours_is_no_reward_and_equal_answers_are_judged_once(monkeypatch):
    monkeypatch.setattr(rewards, "_faults", [])
    broken = failing()
    columns = {name: [value] * 3 for name, value in ROW.items()}
    answers = ["<answer>3</answer>", "nothing", "<answer>3</answer>"]
    with pytest.warns(UserWarning, match="fork server was lost.*`code-verifier doctor`") as shown:
        assert trl_reward(broken)(answers, **columns) == [None, 0.0, None]
    assert len(shown) == 1
    assert broken.grade.call_count == 1
    assert trl_reward(broken)(answers, **columns) == [None, 0.0, None]  # no second warning


def test_a_dataset_that_is_no_task_is_an_error():
    reward = trl_reward()
    with pytest.raises(CodeVerifierError, match="kind"):
        reward(["<answer>1</answer>"], output=["1"])
    with pytest.raises(CodeVerifierError, match="output"):
        reward(["no answer"], kind=["code_o"], output=[None])


def test_a_reward_function_can_be_sent_to_another_process():
    columns = {name: [value] for name, value in ROW.items()}
    for given in (Sandbox(workers=1), None):
        copied = pickle.loads(pickle.dumps(trl_reward(given)))
        assert copied(["<answer>3</answer>"], **columns) == [1.0]


def test_verifiers_functions(sandbox):
    reward = verifiers_reward(sandbox)
    for text, score in (("<answer>3</answer>", 1.0), ("<answer>4</answer>", 0.0), ("3", 0.0)):
        trace = SimpleNamespace(last_reply=text)
        assert asyncio.run(reward(SimpleNamespace(row=ROW), trace)) == score
    broken = verifiers_reward(failing())
    trace = SimpleNamespace(last_reply="<answer>3</answer>")
    with pytest.raises(SandboxUnavailable, match="lost; type `code-verifier doctor`"):
        asyncio.run(broken(SimpleNamespace(row=ROW), trace))
    with pytest.raises(CodeVerifierError, match="mapping"):
        asyncio.run(reward(SimpleNamespace(), trace))


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not there")
def test_the_plain_example():
    said = python(EXAMPLES / "plain.py")
    assert said.split() == ["[1,", "2,", "3]", "nondeterministic", "1.0", "0.0"]
