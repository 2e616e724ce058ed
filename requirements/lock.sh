#!/bin/sh
# Write build.txt, runtime.txt, dev.txt and the benchmark's peers: exact versions with hashes for every supported Python, no index addresses.
set -eu
cd "$(dirname "$0")/.."
command -v uv >/dev/null 2>&1 || [ -x .venv/bin/uv ] || .venv/bin/python -m pip install --quiet uv
PATH="$PWD/.venv/bin:$PATH"
for file in requirements/build.in requirements/runtime.in requirements/dev.in bench/peers/*.in; do
    name=${file%.in}
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --no-header --no-annotate "$name.in" -o "$name.txt" "$@"
    echo "$name.txt" >&2
done
