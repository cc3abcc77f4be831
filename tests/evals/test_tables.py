"""The paper's table in four forms."""

import json
import re

import pytest

from evals.errors import EvalsError
from evals.metrics.counts import Verdicts
from evals.tables.latex import escape, to_latex
from evals.tables.markdown import to_markdown
from evals.tables.plain import to_dict
from evals.tables.table import Table, build_table
from evals.tables.text import to_text

Results = dict[str, dict[str, Verdicts]]


def share(right: int, of: int = 10) -> Verdicts:
    return {f"p{i}": [i < right] for i in range(of)}


def results() -> Results:
    return {
        "Qwen": {"humaneval_plus": share(4), "gsm8k": share(3)},
        "azr": {"humaneval_plus": share(5), "gsm8k": share(4)},
        "s_0": {"humaneval_plus": share(6), "gsm8k": share(8)},
        "s|1": {"humaneval_plus": share(8), "gsm8k": share(6), "nano_code_o": share(1)},
    }


def table(**changed: object) -> Table:
    return build_table(results(), base="Qwen", baseline="azr", **changed)  # type: ignore[arg-type]


def test_rows_and_columns_are_the_papers() -> None:
    found = table()
    assert found.columns == ("nano_code_o", "humaneval_plus", "gsm8k", "code", "math", "total")
    kinds = [row.kind for row in found.rows]
    assert kinds == ["base", "baseline", "member", "member", "mean", "weakest", "best"]
    mean, weakest, best = found.rows[-3:]
    assert mean.cells["gsm8k"].score.value == pytest.approx(0.7)
    assert (weakest.cells["gsm8k"].member, best.cells["gsm8k"].member) == ("s|1", "s_0")
    assert best.cells["total"].score.value == pytest.approx(0.7)
    assert "nano_code_o" not in found.rows[0].cells


def test_text_is_aligned_and_notes_say_what_is_missing() -> None:
    lines = to_text(table()).splitlines()
    titles = ["avg@n, %", "nano_code_o", "HEval+", "GSM8K", "code avg", "math avg", "total avg"]
    assert re.split(r"\s{2,}", lines[0]) == titles
    assert lines[1].split() == ["Qwen", "-", "40.0", "30.0", "40.0†", "30.0†", "35.0†"]
    assert len({len(line) for line in lines[:5]}) == 1
    assert set(lines[5]) == {"-"}
    assert "† the code average is without mbpp_plus, livecodebench" in lines
    assert any("resample problems" in line for line in lines)


def test_intervals_come_on_demand() -> None:
    assert "(" not in to_text(table()).split("†")[0]
    with_them = to_text(table(), intervals=True)
    low, high = re.findall(r"s_0 .*? 60\.0 \(([\d.]+)-([\d.]+)\)", with_them)[0]
    assert float(low) < 60 < float(high)
    assert "60.0 (30.0--" in to_latex(table(), intervals=True)


def test_limited_runs_are_marked_in_every_average_they_enter() -> None:
    found = table(partial=[("s_0", "gsm8k")])
    row = next(row for row in found.rows if row.label == "s_0")
    assert {name for name, cell in row.cells.items() if cell.partial} == {"gsm8k", "math", "total"}
    marked = {row.label for row in found.rows if row.cells["gsm8k"].partial}
    assert marked == {"s_0", "population mean of 2", "weakest member", "best member"}
    assert found.notes[0] == "* part of the benchmark (--limit)"
    assert "80.0*" in to_text(found)
    assert "80.0\\*" in to_markdown(found)
    assert "80.0$^{*}$" in to_latex(found)


def test_markdown_survives_names_with_markup() -> None:
    lines = to_markdown(table()).splitlines()
    assert lines[1] == "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert lines[5].startswith("| s\\|1 | 10.0 | 80.0 |")
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")]
    assert set(cells) == {8}
    found = to_markdown(build_table({"<b>`x`</b>": {"gsm8k": share(1)}}))
    assert "&lt;b&gt;\\`x\\`&lt;/b&gt;" in found


def test_latex_is_escaped_and_its_rows_are_whole() -> None:
    text = to_latex(table())
    body = text[text.index("\\toprule") : text.index("\\bottomrule")]
    rows = [line for line in body.splitlines() if line.endswith("\\\\")]
    assert len(rows) == 8
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {6}
    assert "s\\_0 & " in text
    assert escape("50% of #1 & {x}_2^~\\") == (
        "50\\% of \\#1 \\& \\{x\\}\\_2\\textasciicircum{}\\textasciitilde{}\\textbackslash{}"
    )


def test_json_has_shares_and_no_nan() -> None:
    found = json.loads(json.dumps(to_dict(table()), allow_nan=False))
    assert found["columns"][-1] == "total"
    assert found["rows"][2]["scores"]["gsm8k"]["value"] == 0.8
    assert found["rows"][-1]["scores"]["gsm8k"]["member"] == "s_0"
    assert "member" not in found["rows"][0]["scores"]["gsm8k"]
    one = build_table({"a": {"gsm8k": {"p": [True]}}})
    assert to_dict(one)["rows"][0]["scores"]["gsm8k"]["standard_error"] is None


def test_one_adapter_is_no_population() -> None:
    found = build_table({"a": {"gsm8k": share(3)}, "b": {}}, base="b")
    assert [row.kind for row in found.rows] == ["base", "member"]
    assert to_text(found).splitlines()[1].split() == ["b", "-", "-"]


def test_what_has_no_verdict_is_told() -> None:
    strange: Results = {
        "a": {"gsm8k": {"p": [True, None]}, "aime24": {"p": [None]}},
        "b\nc": {"gsm8k": {"q": [False]}},
    }
    notes = build_table(strange).notes
    assert "samples without a verdict, not counted: 1" in notes
    assert "no sample has a verdict: aime24" in notes
    assert "members were not graded on the same problems: gsm8k" in notes
    assert "b c" in to_text(build_table(strange))


def test_wrong_use_is_told() -> None:
    with pytest.raises(EvalsError, match="run or grade one first"):
        build_table({"a": {"gsm8k": {"p": [None]}}})
    with pytest.raises(EvalsError, match="baseline 'x' has no results; found a"):
        build_table({"a": {"gsm8k": share(1)}}, baseline="x")
    with pytest.raises(EvalsError, match="pass@2 needs 2"):
        build_table({"a": {"gsm8k": share(1)}}, k=2)
    assert build_table({"a": {"gsm8k": {"p": [True, False]}}}, k=2).measure == "pass@2"
