#!/usr/bin/env bash
# wheels.sh PYTHON [PACKAGE...]
#
# Build the five wheels; install each PACKAGE (code_verifier and league unless others are named)
# into an empty environment with nothing but its own requirements, import it, see that no package
# came along that it does not require, and run its own tests.
set -euo pipefail
python=$1
shift
[ $# -gt 0 ] || set -- code_verifier league
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for package in lora_evo code_verifier league evals selfplay; do
    "$python" -m build --wheel --no-isolation --outdir "$work/dist" "$package" >"$work/build.log" 2>&1 \
        || { cat "$work/build.log"; exit 1; }
done
ls "$work/dist"

# Tests read the examples by their place beside the tests, and share what lies in support folders.
cp -r "$root/examples" "$work/examples"
helpers=
for support in tests/support tests/*/support; do
    mkdir -p "$work/helpers/$support"
    cp "$root/$support"/*.py "$work/helpers/$support"
    helpers=$helpers:$work/helpers/$support
done
mkdir "$work/tests"

alone() {
    local package=$1 pip wheel
    "$python" -m venv "$work/envs/$package"
    pip=("$work/envs/$package/bin/python" -m pip --disable-pip-version-check install --quiet
        -c "$root/constraints.txt" --find-links "$work/dist")
    "${pip[@]}" "$work"/dist/populab_"$package"-*.whl
    (cd "$work" && "$work/envs/$package/bin/python" -c "
import importlib.util as found, $package
light = '$package' in ('code_verifier', 'league')
unwanted = [n for n in ('torch', 'transformers') if light and found.find_spec(n)]
assert not unwanted, f'{unwanted} came along'
siblings = {'evals': 2, 'selfplay': 3}.get('$package', 0)
ours = ('lora_evo', 'code_verifier', 'league', 'evals', 'selfplay')
assert sum(found.find_spec(n) is not None for n in ours) == siblings + 1
print('$package', $package.__version__, 'imports alone')")
    # Tests that need more than the package requires (peft, transformers, trl) are skipped, but those
    # of its pages are not.
    wheel=$(ls "$work"/dist/populab_"$package"-*.whl)
    case $package in code_verifier | league) wheel=$wheel[report] ;; esac
    "${pip[@]}" "$wheel" pytest pytest-xdist hypothesis
    # Run from outside the repository, so that only the installed packages can be imported.
    cp -r "$root/tests/$package" "$work/tests/$package"
    (cd "$work" && PYTHONPATH="${helpers#:}" OMP_NUM_THREADS=1 \
        "$work/envs/$package/bin/python" -m pytest -q --hypothesis-profile=ci --import-mode=importlib \
        --numprocesses 2 --dist loadfile --no-loadscope-reorder \
        -o "markers=slow: minutes or more" -m "not slow" -p no:cacheprovider "tests/$package")
}

# All at once; each says at its end what it has to say.
running=() failed=0
for package in "$@"; do
    alone "$package" >"$work/$package.log" 2>&1 &
    running+=("$package:$!")
done
for one in "${running[@]}"; do
    wait "${one#*:}" || failed=1
    cat "$work/${one%%:*}.log"
done
exit $failed
