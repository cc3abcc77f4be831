"""One task as a card, from what the teacher was shown to what both were moved by."""

from selfplay.records.task_row import AttemptRow, TaskRow
from selfplay.report.markup import clip, element, escape, figure
from selfplay.report.reading.shown import Shown

MOST_PROMPT = 3000
MOST_PROGRAM = 3000
MOST_THOUGHT = 1500
MOST_VALUE = 600
MOST_ATTEMPTS = 6
MOST_EXAMPLES = 10
MARKS = {"right": "✓", "partly": "◐", "wrong": "✗", "ill-formed": "∅"}

PROGRAM_TITLES = {
    "code_f": "Teacher's program (hidden from the student)",
}
VALUE_TITLES = {
    "code_o": ("Input", "Output to predict (hidden from the student)"),
    "code_i": ("Teacher's input (hidden from the student; any that fits is right)", "Output"),
}


def task_card(task: TaskRow, run: str, shown: Shown) -> str:
    """Return the card of a task; `run` marks it for the page's selector."""
    accepted = task.accepted
    parts = [_head(task, accepted)]
    references = f" after {', '.join(task.references)}" if any(task.references) else ""
    parts.append(_prompt(f"What {task.teacher} was shown{references}", shown.to_teacher(task)))
    if task.program:
        title = PROGRAM_TITLES.get(task.kind, "Program")
        parts.append(_block(title, task.program, MOST_PROGRAM))
    elif task.text:
        parts.append(_block("What the teacher wrote", task.text, MOST_PROGRAM))
    if not accepted and task.reason:
        parts.append(_block("Why it was rejected", task.reason, MOST_VALUE))
    parts.append(_examples(task) if task.kind == "code_f" else _values(task))
    if task.attempts:
        parts.append(_prompt(f"What {task.student} was shown", shown.to_student(task)))
        parts.append(_attempts(task))
    return element(
        "article",
        "".join(parts),
        class_="card" if accepted else "card rejected",
        data_run=run,
        data_step=str(task.step),
        data_kind=task.kind,
        data_member=" ".join(filter(None, (task.teacher, task.student))),
        data_verdict=_outcome(task),
    )


def _outcome(task: TaskRow) -> str:
    """What came of a proposal, in a word that cards are chosen by."""
    if not task.accepted:
        return task.status
    if task.rho is None:
        return "not tried"
    return "unsolved" if task.rho == 0.0 else "solved" if task.rho == 1.0 else "partly solved"


def _earned(reward: float | None, advantage: float | None) -> str:
    """Say what a text earned, and by how much that moved its writer."""
    if reward is None:
        return ""
    if advantage is None:
        return f"reward {figure(reward)}"
    return f"reward {figure(reward)}, advantage {'+' if advantage > 0.0 else ''}{figure(advantage)}"


def _prompt(title: str, prompt: str | None) -> str:
    if prompt is None:
        return ""
    text = element("pre", escape(clip(prompt, MOST_PROMPT)), tabindex="0")
    return element("details", element("summary", escape(title)) + text, class_="shown")


def _head(task: TaskRow, accepted: bool) -> str:
    players = task.teacher
    if accepted and task.student:
        players = f"{task.teacher} asks {task.student}"
    verdict = f"rejected: {task.status}"
    if accepted:
        tries = sum(attempt.count for attempt in task.attempts)
        right = sum(a.count for a in task.attempts if a.verdict == "right")
        verdict = f"solved {right} of {tries}" if tries else "accepted"
    earned = _earned(task.reward, task.advantage)
    reward = f"teacher's {earned}" if earned else ""
    badge = element("span", escape(verdict), class_="badge" if accepted else "badge bad")
    words = f"step {task.step} · {task.kind} · {players}"
    line = element("span", escape(words)) + badge
    return element("header", line + element("span", escape(reward), class_="quiet"))


def _block(title: str, text: str, most: int) -> str:
    code = element("pre", escape(clip(text, most)), tabindex="0")
    return element("h4", escape(title)) + code


def _values(task: TaskRow) -> str:
    titles = VALUE_TITLES.get(task.kind, ("Input", "Output"))
    values = zip(titles, (task.input, task.output), strict=True)
    return "".join(_block(title, text, MOST_VALUE) for title, text in values if text is not None)


def _examples(task: TaskRow) -> str:
    parts = []
    if task.message:
        parts.append(_block("Message to the student", task.message, MOST_VALUE))
    examples = list(zip(task.inputs, task.outputs, strict=False))
    if examples:
        rows = [element("tr", "".join(element("th", t) for t in ("input", "output", "student")))]
        for i, (given, result) in enumerate(examples[:MOST_EXAMPLES]):
            seen = "sees it" if i < task.visible else "judged on it"
            code = [element("code", escape(clip(text, 200))) for text in (given, result)]
            rows.append(element("tr", "".join(element("td", c) for c in [*code, seen])))
        parts.append(element("h4", "Examples"))
        parts.append(element("div", element("table", "".join(rows)), class_="scroll"))
        rest = len(examples) - MOST_EXAMPLES
        if rest > 0:
            parts.append(element("p", f"and {rest} more examples", class_="quiet"))
    return "".join(parts)


def _attempts(task: TaskRow) -> str:
    tries = sum(attempt.count for attempt in task.attempts)
    ordered = sorted(task.attempts, key=lambda a: -a.count)
    rows = "".join(_attempt(attempt) for attempt in ordered[:MOST_ATTEMPTS])
    rest = len(ordered) - MOST_ATTEMPTS
    more = element("p", f"and {rest} more different answers", class_="quiet") if rest > 0 else ""
    title = "1 attempt" if tries == 1 else f"{tries} attempts"
    return element("h4", title) + element("ol", rows, class_="attempts") + more


def _attempt(attempt: AttemptRow) -> str:
    verdict = attempt.verdict
    mark = element("span", MARKS[verdict], class_=f"mark {verdict}", aria_hidden="true")
    said = verdict if verdict != "partly" else f"partly right ({figure(attempt.score, share=True)})"
    head = f"{mark} {said}" + (f" × {attempt.count}" if attempt.count > 1 else "")
    earned = _earned(attempt.reward, attempt.advantage)
    quiet = element("span", f" · {earned}", class_="quiet") if earned else ""
    parts = [element("div", head + quiet, class_="verdict")]
    if attempt.answer is not None:
        parts.append(element("pre", escape(clip(attempt.answer, MOST_VALUE)), tabindex="0"))
    if attempt.thought.strip():
        thought = element("pre", escape(clip(attempt.thought, MOST_THOUGHT)), tabindex="0")
        parts.append(element("details", element("summary", "what it thought") + thought))
    return element("li", "".join(parts))
