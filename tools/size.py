"""Measure the house: lines, modules, imports, doors, folders, commands, tests, docs.

    python tools/size.py [--json]

Prints one row a measure with its goal, one table of packages, and what is out of bounds: modules
over 600 or under 40 lines, folders of fewer than three modules or too deep, imports past a door.
"""

import argparse
import ast
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("lora_evo", "code_verifier", "league", "evals", "selfplay")
DOORS = {*PACKAGES, "lora_evo.files", "lora_evo.model", "lora_evo.terminal"}
ENTRY_POINTS = ("__init__.py", "__main__.py", "cli.py", "errors.py")
GOALS = {
    "lines of src": 38_300,
    "modules": 160,
    "import lines, %": 5.5,
    "imports past a door": 0,
    "folders out of bounds": 0,
    "modules out of bounds": 0,
    "commands": 35,
    "options": 140,
    "lines of tests": 28_500,
    "pages of docs": 14,
}


def modules(package: str) -> list[Path]:
    """Return the files of a package that hold code."""
    paths = sorted((ROOT / package / "src" / package).rglob("*.py"))
    return [path for path in paths if path.read_text(encoding="utf-8").strip()]


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def import_lines(path: Path) -> int:
    """Count the lines that import statements take."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = (n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)


def past_doors(package: str) -> Iterator[str]:
    """Yield each import of another package of ours that goes past its door."""
    for path in modules(package):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                owner = name.split(".")[0]
                if owner in PACKAGES and owner != package and name not in DOORS:
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {name}"


def module_faults(package: str) -> Iterator[str]:
    """Yield the modules that are too long or too short for a subject."""
    for path in modules(package):
        count = lines(path)
        if count > 600 or (count < 40 and path.name not in ENTRY_POINTS):
            yield f"{path.relative_to(ROOT)}: {count} lines"


def folder_faults(package: str) -> Iterator[str]:
    """Yield the folders that hold fewer than three modules, or lie too deep."""
    root = ROOT / package / "src" / package
    for folder in sorted({path.parent for path in root.rglob("*.py")} - {root}):
        held = [p for p in folder.glob("*.py") if p.name != "__init__.py"]
        depth = len(folder.relative_to(root).parts)
        if len(held) < 3 or depth > 1:
            yield f"{folder.relative_to(ROOT)}: {len(held)} modules, {depth} deep"


def commands() -> tuple[int, int, dict[str, str]]:
    """Count commands and their options, `--help` and `--version` left out."""
    import importlib

    import click

    counts, total, options = {}, 0, 0
    for package in PACKAGES:
        group = importlib.import_module(f"{package}.cli").main
        sizes = {}
        stack: list[tuple[str, click.Command]] = [("", group)]
        while stack:
            name, command = stack.pop()
            if isinstance(command, click.Group):
                context = click.Context(command)
                for key in command.list_commands(context):
                    inner = command.get_command(context, key)
                    assert inner is not None
                    stack.append((f"{name} {key}".strip(), inner))
            else:
                flags = [p for p in command.params if isinstance(p, click.Option)]
                sizes[name] = sum("--version" not in option.opts for option in flags)
        counts[package] = ", ".join(f"{name} {n}" for name, n in sorted(sizes.items()))
        total, options = total + len(sizes), options + sum(sizes.values())
    return total, options, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    as_json = parser.parse_args().json
    files = [path for package in PACKAGES for path in modules(package)]
    source = sum(map(lines, files))
    tests = list((ROOT / "tests").rglob("*.py"))
    count, options, by_package = commands()
    faults = {
        "imports past a door": [x for p in PACKAGES for x in past_doors(p)],
        "folders out of bounds": [x for p in PACKAGES for x in folder_faults(p)],
        "modules out of bounds": [x for p in PACKAGES for x in module_faults(p)],
    }
    measured: dict[str, float] = {
        "lines of src": source,
        "modules": len(files),
        "import lines, %": round(100 * sum(map(import_lines, files)) / source, 1),
        **{name: len(places) for name, places in faults.items()},
        "commands": count,
        "options": options,
        "lines of tests": sum(map(lines, tests)),
        "pages of docs": len(list((ROOT / "docs").rglob("*.md"))),
    }
    if as_json:
        print(json.dumps({"measured": measured, "goals": GOALS, "faults": faults}, indent=2))
        return
    for name, value in measured.items():
        mark = "" if value <= GOALS[name] else "  over"
        print(f"{name:24} {value:>9,}   goal {GOALS[name]:>7,}{mark}")
    print()
    for package in PACKAGES:
        paths = modules(package)
        print(f"{package:14} {sum(map(lines, paths)):>7,} lines {len(paths):>4} modules")
        print(f"    {by_package[package]}")
    for name, places in faults.items():
        print(f"\n{name}:", *(places or ["none"]), sep="\n    ")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # a reader such as `head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
