"""Random blocks of the nano language: assignment, branch and loops, built from the grammar."""

from selfplay.nano.grammar import (
    LETTERS,
    Kind,
    Line,
    Scope,
    comprehension,
    condition,
    constant,
    expression,
)


def assignment(s: Scope, depth: int, *, update: bool | None = None) -> list[Line]:
    """Assign one operation to a new variable, or (update) to the variable it started from."""
    rng = s.rng
    kind = rng.choice(s.kinds())
    if kind != "int" and not s.variables["int"] and rng.random() < 0.35:
        kind = "int"
    listed = kind == "list" and rng.random() < 0.3
    value = comprehension(s) if listed else expression(s, kind)
    again = rng.random() < 0.5 if update is None else update
    name = s.pick(kind) if again and s.variables[kind] else s.fresh(kind)
    s.bind(kind, name)
    return [Line(depth, f"{name} = {value}", (name,))]


def branch(s: Scope, depth: int) -> list[Line]:
    """`if test:` with one update, half of the time with an `else:`."""
    test = condition(s)
    s.hint("if")
    name, kind = _target(s)
    lines = [Line(depth, f"if {test}:", condition=True), _update(s, depth + 1, name, kind)]
    if s.rng.random() < 0.5:
        lines += [Line(depth, "else:"), _update(s, depth + 1, name, kind)]
    return lines


def loop(s: Scope, depth: int, *, nested: bool) -> list[Line]:
    """A bounded loop that updates an accumulator; `nested` puts a branch into its body."""
    rng = s.rng
    iterables: list[Kind] = [k for k in s.kinds() if k != "int"]
    kind: Kind
    if iterables and rng.random() < 0.7:
        kind = rng.choice(iterables)
        over = s.pick(kind)
    else:
        kind, over = "int", f"range({constant(rng, 2, 3)})"
    s.hint("for " + {"list": "list", "str": "str", "int": "range"}[kind])
    item = "i" if kind != "str" else "e"
    if kind == "str":
        accumulator = s.fresh("str") if rng.random() < 0.6 else s.fresh("int")
    else:
        accumulator = s.pick("int") if kind == "int" and s.variables["int"] else s.fresh("int")
    is_str = accumulator in ("s", "t", "u")
    lines: list[Line] = []
    known: Kind = "str" if is_str else "int"
    if accumulator not in s.variables[known] or kind != "int":
        start = "''" if is_str else constant(rng, 0, 3)
        lines.append(Line(depth, f"{accumulator} = {start}", (accumulator,)))
    s.bind(known, accumulator)
    lines.append(Line(depth, f"for {item} in {over}:", (item,)))
    inner = depth + 1
    if nested:
        test = (
            f"{item} == '{rng.choice(LETTERS)}'"
            if kind == "str"
            else rng.choice((f"{item} > {constant(rng, 0, 5)}", f"{item} % 2 == 0"))
        )
        s.hint("if")
        lines.append(Line(inner, f"if {test}:", condition=True))
        inner += 1
    if is_str:
        text = rng.choice((f"{accumulator} + {item}", f"{item} + {accumulator}"))
    elif kind == "str":
        text = f"{accumulator} + {constant(rng, 1, 3)}"
    else:
        text = rng.choice(
            (
                f"{accumulator} + {item}",
                f"{accumulator} + {item}",
                f"{accumulator} - {item}",
                f"{accumulator} + {constant(rng, 1, 3)}",
                f"max({accumulator}, {item})",
            )
        )
    lines.append(Line(inner, f"{accumulator} = {text}", (accumulator,)))
    return lines


def while_loop(s: Scope, depth: int) -> list[Line]:
    """Count a visible int down to a bound; at most a handful of rounds for digit inputs."""
    rng = s.rng
    v = s.pick("int")
    bound, step = rng.randint(2, 5), rng.randint(2, 4)
    s.hint("while sub")
    return [
        Line(depth, f"while {v} > {bound}:", condition=True),
        Line(depth + 1, f"{v} = {v} - {step}", (v,)),
    ]


def _target(s: Scope) -> tuple[str, Kind]:
    kind = s.rng.choice(s.kinds())
    return s.pick(kind), kind


def _update(s: Scope, depth: int, name: str, kind: Kind) -> Line:
    keep = s.variables[kind]
    s.variables[kind] = [name]
    others = {k: v for k, v in s.variables.items() if k != kind}
    if kind == "int":
        s.variables.update({"list": [], "str": []})
    value = expression(s, kind)
    s.variables[kind] = keep
    s.variables.update(others)
    return Line(depth, f"{name} = {value}", (name,))
