"""The examples in docstrings, run as they stand."""

from doctest import DocTestFinder, DocTestRunner
from types import ModuleType


def run_examples(package: ModuleType, names: list[str], **more: object) -> None:
    """Run the examples of these public names, which may use the others of their package."""
    public = {name: getattr(package, name) for name in package.__all__}
    runner = DocTestRunner()
    for name in names:
        found = DocTestFinder().find(public[name], name, module=False, globs=public | more)
        assert any(test.examples for test in found), f"{name} has no example"
        for test in found:
            assert runner.run(test).failed == 0, f"the example of {test.name} is not true"
