"""The examples in docstrings are true."""

from pathlib import Path

from docstrings import run_examples

import selfplay


def test_examples_in_docstrings_are_true(runs, tmp_path, monkeypatch):
    def small_preset(name, **values):
        assert name == "nano"
        given = (f"{key}={value}" for key, value in values.items())
        return runs.config("eval.eval_every=0", "evolution.evolve_every=0", *given)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("selfplay.reports.run_page.report_charts", lambda run: {})
    run_examples(selfplay, ["load_preset"])
    run_examples(selfplay, ["train", "resume"], load_preset=small_preset)
    run_examples(selfplay, ["read_run", "report", "export_member"], Path=Path)
