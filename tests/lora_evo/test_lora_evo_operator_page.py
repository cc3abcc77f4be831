"""`lora-evo operators`: what stands there is what the operators take."""

import json

import pytest
from click.testing import CliRunner

from lora_evo.cli import main
from lora_evo.operators.catalogue import OPERATORS
from lora_evo.operators.operator import Operator
from lora_evo.operators.page import OperatorPage, operator_page, operator_pages, table


def call(*words, code=0):
    result = CliRunner().invoke(main, ["operators", *words])
    assert result.exit_code == code, result.output
    return result


def test_the_list_has_a_line_for_each_operator():
    lines = call().stdout.splitlines()
    assert lines[0].split()[:4] == ["name", "kind", "strength", "parameters"]
    assert [line.split()[0] for line in lines[1 : 1 + len(OPERATORS)]] == list(OPERATORS)
    masking = next(line for line in lines if line.startswith("component_masking"))
    assert masking.split()[1:5] == ["mutation", "0.15", "tail=1", "built-in"]
    assert masking.endswith(OPERATORS["component_masking"].summary)
    swap = next(line for line in lines if line.startswith("slot_swap"))
    assert swap.split()[1:4] == ["crossover", "-", "level=module"]


@pytest.mark.parametrize("name", list(OPERATORS))
def test_every_page_tells_formula_and_source(name):
    page = call(name).stdout
    operator = OPERATORS[name]
    assert operator.summary in page
    assert operator.preserves in page
    assert len(operator_page(name).description) > 200
    assert all(f"--set {parameter}=" in page for parameter in operator.defaults)
    row = json.loads(call(name, "--json").stdout)
    assert row["description"] in page
    assert row["origin"] is None
    assert row["parameters"] == json.loads(json.dumps(dict(operator.defaults)))


def test_text_is_shown_as_set_takes_it():
    operator = Operator(
        name="odd",
        kind="crossover",
        summary="s",
        preserves="p",
        prepare=lambda request: None,
        defaults={"plain": "module", "number": "1", "list": [1, 2], "share": 1 / 3},
    )
    page = OperatorPage("odd", operator, None)
    assert '--set plain=module --set number="1" --set list=[1, 2] --set share=0.3333' in page.text()
    assert "share=0.333 " in table([page])
    assert "strength    none" in page.text()


def test_unknown_names_are_refused_with_a_suggestion():
    assert "did you mean 'neftune'" in call("neftun", code=2).stderr
    assert len(operator_pages()) >= len(OPERATORS)
