"""Members of a base in bitsandbytes' 4 bits are evaluated on it, and results say so."""

import json
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from evals_commands import fails, run
from json_lines import write_rows

from lora_evo import Lineage

pytestmark = pytest.mark.skipif(
    not find_spec("bitsandbytes"), reason="bitsandbytes is not installed: `make test-4bit`"
)
NF4 = "4-bit nf4, double quantization, compute in bfloat16"


def test_a_member_runs_on_its_base_and_on_another_only_where_asked_for(
    tmp_path, model_folder, adapter_folders
):
    member = Path(shutil.copytree(adapter_folders["one"], tmp_path / "t0"))
    founder = replace(Lineage.founder("t0", 0, "sha256:0"), quantization=NF4)
    (member / "lineage.json").write_text(founder.to_json())
    rows = [{"question": f"{a} + {a}?", "answer": f"#### {2 * a}"} for a in range(1, 4)]
    data = write_rows(tmp_path / "gsm8k.jsonl", rows)
    arguments = ("run", "--model", model_folder, "--adapter", member, "--benchmark", "gsm8k")
    arguments += ("--data", f"gsm8k={data}", "--recipe", "azr", "--max-tokens", 4)
    refused = "set load_in_4bit (--load-in-4bit), or accept it with --any-base"
    fails(2, refused, *arguments, "--out", tmp_path / "no")
    assert not (tmp_path / "no").exists()
    for name, more in (("bits", "--load-in-4bit"), ("plain", "--any-base")):
        result = run(*arguments, more, "--out", tmp_path / name)
        assert result.exit_code == 0, result.output
        found = json.loads((tmp_path / name / "t0" / "gsm8k" / "result.json").read_text())
        assert found["settings"].get("quantization") == (NF4 if name == "bits" else None)
