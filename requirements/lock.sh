#!/bin/sh
# Write build.txt, runtime.txt and dev.txt: exact versions with hashes for every supported Python, no index addresses.
set -eu
cd "$(dirname "$0")/.."
command -v uv >/dev/null 2>&1 || [ -x .venv/bin/uv ] || .venv/bin/python -m pip install --quiet uv
PATH="$PWD/.venv/bin:$PATH"
for name in build runtime dev; do
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --no-header --no-annotate "requirements/$name.in" -o "requirements/$name.txt" "$@"
    echo "requirements/$name.txt" >&2
done
