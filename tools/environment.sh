# shellcheck shell=bash
# Sourced by quickstart.sh and test.sh: makes or reuses .venv with pinned dependencies. Expects bash and `set -e`.

# One environment for both: what is installed is also what the quickstart reads.
prepare_environment() {
    local python stamp=.venv/.installed wanted
    python=$(find_python)
    if [ ! -x .venv/bin/python ]; then
        echo "-- making .venv with $($python --version)"
        "$python" -m venv .venv
    fi
    wanted=$(cat setup.cfg pyproject.toml tools/constraints.txt | sha256sum | cut -d' ' -f1)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        echo "-- .venv is up to date"
        return
    fi
    echo "-- installing hpc_llm with pinned dependencies into .venv (a few minutes the first time)"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        --constraint tools/constraints.txt --editable ".[test]"
    echo "$wanted" >"$stamp"
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "Python 3.11 or newer with venv is needed (on Debian: apt-get install python3 python3-venv)" >&2
    return 1
}
