"""The program in an answer to a LiveCodeBench prompt: the official rule, and AZR's."""

import re

_FENCE = "```"
_BLOCK = re.compile(r"```python\s*(.*?)```", re.S)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.S)


def official_program(answer: str) -> str:
    """The lines between the last two that hold three backticks; "" where there are fewer."""
    lines = answer.split("\n")
    fences = [number for number, line in enumerate(lines) if _FENCE in line]
    if len(fences) < 2:
        return ""
    return "\n".join(lines[fences[-2] + 1 : fences[-1]])


def azr_program(answer: str) -> str:
    """The last python block inside the last answer tag; without one, the tag's or whole text."""
    tagged = _ANSWER.findall(answer)
    text = tagged[-1] if tagged else answer
    blocks = _BLOCK.findall(text)
    return str(blocks[-1] if blocks else text).strip()
