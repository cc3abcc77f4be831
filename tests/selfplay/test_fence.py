"""Fenced blocks as Markdown has them, and as models write them. All texts are our own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfplay.prompts.reading import Fence, fenced, fences


def block(name, content):
    return f"```{name}\n{content}\n```"


@pytest.mark.parametrize(
    "name", ["py", "Python3", "PYTHON", "python title=a", "ipython", "{python}"]
)
def test_every_spelling_of_python_is_python(name):
    assert fences(block(name, "x = 1")) == [Fence("python", "x = 1")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("~~~input\n3\n~~~", [Fence("input", "3")]),
        ("````python\na = '```'\n```\nb\n````", [Fence("python", "a = '```'\n```\nb")]),
        ("  ```output\n  4\n  ```", [Fence("output", "4")]),
        ("1. So:\n   ```output\n   4\n   ```\nDone.", [Fence("output", "4")]),
        ("```output\n4```", [Fence("output", "4")]),
        ("```output 4```", [Fence("output", "4")]),
        ("```input_1\n1\n```\n```Inputs\n2\n```", [Fence("input", "1"), Fence("input", "2")]),
        ("```\n4\n```", [Fence("", "4")]),
        ("```markdown\n```python\nx\n```\n```", [Fence("python", "x")]),
        (
            "```\n```python\nx\n```\n```input\n3\n```\n```",
            [Fence("python", "x"), Fence("input", "3")],
        ),
        ("~~~\n```output\n4\n```\n~~~", [Fence("output", "4")]),
        ("```python\n```python\nx\n```\n```", [Fence("python", "x")]),
        ("```python\n```python\nx\n```", [Fence("python", "x")]),
        ("use ```x``` here", []),
        ("```output\n4", []),
        ("```python\nx = 1\n```input\n3\n```", [Fence("input", "3")]),
        ("```python\nx = 1\n``` and so on", [Fence("python", "x = 1")]),
        ("```python\nx = 1\n``` \nthat is all", [Fence("python", "x = 1")]),
    ],
)
def test_fences_are_those_of_markdown_and_of_models(text, found):
    assert fences(text) == found


DOCUMENTED = '''def f(a):
    """Adds.

    ```python
    f(1)
    ```
    """
    return a + 1'''


def test_fences_in_a_docstring_do_not_end_the_program():
    assert fences(block("python", DOCUMENTED)) == [Fence("python", DOCUMENTED)]


@given(st.text(st.sampled_from("`~ab \n")), st.sampled_from(["python", "input", "message"]))
def test_what_is_fenced_comes_back(content, name):
    content = content.replace("~", "-")
    found = fences(f"before\n{fenced(name, content)}\nafter")
    assert found == [Fence(name, content)]
