"""The examples in docstrings, run as they stand."""

from doctest import DocTestFinder, DocTestRunner
from types import ModuleType


def run_examples(package: ModuleType, names: list[str], **more: object) -> None:
    """Run the examples of these functions, which may use the public names of their package."""
    public = {name: getattr(package, name) for name in package.__all__}
    runner = DocTestRunner()
    for name in names:
        (test,) = DocTestFinder(recurse=False).find(public[name], name, globs=public | more)
        assert test.examples, f"{name} has no example"
        assert runner.run(test).failed == 0, f"the example of {name} is not true"
