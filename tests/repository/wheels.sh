#!/usr/bin/env bash
# wheels.sh PYTHON [PACKAGE...]
#
# Build the five wheels; install the PACKAGEs (code_verifier and league unless others are named)
# into an empty environment with nothing but their requirements, import each, see that no package
# came along that none of them requires, and run their own tests. PYTHON has uv, and its pip's way
# to an index is the one that uv takes.
set -euo pipefail
python=$1
shift
[ $# -gt 0 ] || set -- code_verifier league
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
uv=("$python" -m uv --quiet)

# uv takes the way to an index from pip's settings.
eval "$("$python" - <<'P'
import sys
from shlex import quote

sys.path.insert(0, "tools")
from install import uv_variables

for name, value in uv_variables(sys.executable).items():
    print(f"export {name}={quote(value)}")
P
)"

for package in lora_evo code_verifier league evals selfplay; do
    "${uv[@]}" build --wheel --no-build-isolation --python "$python" --out-dir "$work/dist" "$package"
done
ls "$work/dist"

"${uv[@]}" venv --python "$python" "$work/env"
wheels=()
for package in "$@"; do
    wheel=$(ls "$work"/dist/populab_"$package"-*.whl)
    # Tests that need more than the package requires (peft, transformers, trl) are skipped, but those
    # of its pages are not.
    case $package in code_verifier | league) wheel=$wheel[report] ;; esac
    wheels+=("$wheel")
done
"${uv[@]}" pip install --python "$work/env/bin/python" --constraints constraints.txt \
    --find-links "$work/dist" "${wheels[@]}" pytest pytest-xdist hypothesis
(cd "$work" && env/bin/python - "$@" <<'P'
import sys
from importlib import import_module, util

packages = set(sys.argv[1:])
siblings = {"evals": {"lora_evo", "code_verifier"},
            "selfplay": {"lora_evo", "code_verifier", "league"}}
expected = packages.union(*(siblings.get(name, ()) for name in packages))
unwanted = {"lora_evo", "code_verifier", "league", "evals", "selfplay"} - expected
if expected <= {"code_verifier", "league"}:
    unwanted |= {"torch", "transformers"}
present = sorted(name for name in unwanted if util.find_spec(name))
assert not present, f"{present} came along"
for name in sorted(packages):
    print(name, import_module(name).__version__, "imports alone")
P
)

# Run from outside the repository, so that only the installed packages can be imported. Tests read
# the examples by their place beside the tests, and share what lies in support folders.
cp -r examples "$work/examples"
helpers=
for support in tests/support tests/*/support; do
    mkdir -p "$work/helpers/$support"
    cp "$support"/*.py "$work/helpers/$support"
    helpers=$helpers:$work/helpers/$support
done
mkdir "$work/tests"
for package in "$@"; do cp -r "tests/$package" "$work/tests/$package"; done
cd "$work"
PYTHONPATH="${helpers#:}" OMP_NUM_THREADS=1 env/bin/python -m pytest -q --import-mode=importlib \
    --hypothesis-profile=ci --numprocesses "${PROCESSES:-2}" --dist loadfile --no-loadscope-reorder \
    -o "markers=slow: minutes or more" -m "not slow" -p no:cacheprovider "${@/#/tests/}"
