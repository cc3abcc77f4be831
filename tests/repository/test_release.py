"""What a release needs is there, and says the same everywhere."""

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from pythons import pythons
from size import PACKAGES, ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECTS: dict[str, dict[str, Any]] = {
    name: tomllib.loads((ROOT / name / "pyproject.toml").read_text())["project"]
    for name in PACKAGES
}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(workflow: Path) -> None:
    for action in re.findall(r"uses: (.*)", workflow.read_text()):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_only_the_jobs_that_publish_may_ask_for_a_token() -> None:
    allowed = set()
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        for name, job in workflow["jobs"].items():
            if job.get("permissions", {}).get("id-token") == "write":
                allowed.add((path.stem, name))
                assert not any("run" in step for step in job["steps"])  # nothing of ours has it
    assert allowed == {("docs", "deploy"), ("release", "publish")}


def test_packages_name_the_pythons_that_make_takes() -> None:
    (oldest, newest) = re.findall(
        r"\(3, (\d+)\) <= sys.version_info < \(3, (\d+)\)", (ROOT / "Makefile").read_text()
    )[0]
    assert pythons() == [f"3.{minor}" for minor in range(int(oldest), int(newest))]
    for project in PROJECTS.values():
        assert project["requires-python"] == f">=3.{oldest}"


def test_all_packages_and_the_citation_have_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {import_module(name).__version__ for name in PACKAGES} == {citation["version"]}
