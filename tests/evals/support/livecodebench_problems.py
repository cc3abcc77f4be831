"""Small invented problems in the schema of LiveCodeBench."""

import base64
import json
import pickle
import zlib
from typing import Any

from evals.code.livecodebench import read_questions
from evals.question import Question


def packed(tests: list[dict[str, str]]) -> str:
    """Hidden tests as they are published."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def row(pairs: list[tuple[str, str]], function: str = "", **changes: Any) -> dict[str, Any]:
    """A row whose first test is public and whose others are hidden."""
    kind = "functional" if function else "stdin"
    tests = [{"input": given, "output": wanted, "testtype": kind} for given, wanted in pairs]
    return {
        "question_id": "p1",
        "question_title": "A problem",
        "question_content": "Do it.",
        "platform": "nowhere",
        "contest_id": "c1",
        "contest_date": "2024-08-03T19:30:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(tests[:1]),
        "private_test_cases": packed(tests[1:]),
        "metadata": json.dumps({"func_name": function} if function else {}),
    } | changes


def question(pairs: list[tuple[str, str]], function: str = "", **changes: Any) -> Question:
    """The question of such a row."""
    return read_questions([row(pairs, function, **changes)])[0]
