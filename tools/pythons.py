"""Print `pythons=[...]` for CI: the Pythons in the classifiers of all packages."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def pythons() -> list[str]:
    """Return the versions that every package names, the oldest first."""
    named = [
        set(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', page.read_text()))
        for page in ROOT.glob("*/pyproject.toml")
    ]
    return sorted(set.intersection(*named), key=lambda version: int(version.split(".")[1]))


if __name__ == "__main__":
    print("pythons=" + json.dumps(pythons()))
