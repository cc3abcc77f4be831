#!/usr/bin/env bash
# Build the five wheels; install code_verifier and league each into an empty environment with
# nothing but its own requirements, import it, see that torch stayed out, and run its own tests.
set -euo pipefail
python=$1
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for package in lora_evo code_verifier league evals selfplay; do
    "$python" -m build --wheel --no-isolation --outdir "$work/dist" "$package" >"$work/build.log" 2>&1 \
        || { cat "$work/build.log"; exit 1; }
done
ls "$work/dist"

for package in code_verifier league; do
    "$python" -m venv "$work/$package"
    pip=("$work/$package/bin/python" -m pip --disable-pip-version-check install --quiet)
    "${pip[@]}" "$work"/dist/populab_"$package"-*.whl
    (cd "$work" && "$work/$package/bin/python" -c "
import importlib.util, $package
assert importlib.util.find_spec('torch') is None, 'torch came along'
print('$package', $package.__version__, 'imports alone')")
    "${pip[@]}" pytest hypothesis
    # Run from outside the repository, so that only the installed package can be imported.
    cp -r "$root/tests/$package" "$work/tests_$package"
    (cd "$work" && "$work/$package/bin/python" -m pytest -q --hypothesis-profile=ci --import-mode=importlib \
        -p no:cacheprovider "tests_$package")
done
