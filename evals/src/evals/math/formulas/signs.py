"""What the signs \\pm and \\mp in an answer stand for, and the vectors i, j and k."""

import re

from evals.math.formulas.forms import Bracketed, Form, Listing, Relation, Scalar


def variants(form: Form, linked: bool) -> list[Form]:
    """The forms that the signs \\pm stand for; `linked`: all signs of a tuple go together."""
    if isinstance(form, Listing):
        return [found for item in form.items for found in variants(item, linked)]
    if isinstance(form, Scalar):
        if "\\pm" not in form.text and "\\mp" not in form.text:
            return [form]
        return [_signed(form, "+"), _signed(form, "-")]
    if isinstance(form, Relation):
        if not any("\\pm" in side for side in form.sides):
            return [form]
        return [_signed(form, "+"), _signed(form, "-")]
    if isinstance(form, Bracketed):
        if linked:
            both = [_signed(form, "+"), _signed(form, "-")]
            return both if both[0] != both[1] else [form]
        found: list[tuple[Form, ...]] = [()]
        for item in form.items:
            found = [(*front, choice) for front in found for choice in variants(item, linked)][:64]
        return [Bracketed(form.left, form.right, items) for items in found]
    return [form]


def _signed(form: Form, sign: str) -> Form:
    other = "-" if sign == "+" else "+"
    if isinstance(form, Scalar):
        return Scalar(form.text.replace("\\pm", sign).replace("\\mp", other))
    if isinstance(form, Relation):
        sides = (side.replace("\\pm", sign).replace("\\mp", other) for side in form.sides)
        return Relation(tuple(sides), form.signs)
    if isinstance(form, Bracketed):
        return Bracketed(form.left, form.right, tuple(_signed(item, sign) for item in form.items))
    return form


def components(text: str) -> list[str]:
    """The three components of a vector such as 2i - 3j + k."""
    bare = re.sub(r"\\(?:hat|vec|text|bar)\s*\{\s*\\?([ijk])(?:math)?\s*\}", r"\1", text)
    letter = re.compile(r"(?<![A-Za-z\\])[ijk](?![A-Za-z])")
    parts = letter.split(bare)
    letters = letter.findall(bare)
    return [
        parts[0]
        + "".join(
            f"({int(found == one)}){part}" for found, part in zip(letters, parts[1:], strict=True)
        )
        for one in "ijk"
    ]
