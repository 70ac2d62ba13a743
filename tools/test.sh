#!/usr/bin/env bash
# All checks: ruff, mypy, shellcheck where installed, then every test; the Slurm tests on a real cluster
# that the tests start. As root, missing Slurm packages are installed; without root those tests skip and
# say so. HPC_LLM_REQUIRE_SLURM=1 makes that a failure. Arguments go to pytest:  bash tools/test.sh tests/data
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/environment.sh
. tools/environment.sh

slurm_packages=(slurm-wlm slurmdbd munge mariadb-server shellcheck)
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    missing=()
    for package in "${slurm_packages[@]}"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        echo "-- apt-get install ${missing[*]}"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
    fi
fi

prepare_environment
if [ $# -eq 0 ]; then
    echo "-- ruff"
    .venv/bin/ruff check hpc_llm tests tools
    .venv/bin/ruff format --check hpc_llm tests tools
    echo "-- mypy"
    .venv/bin/mypy
    if command -v shellcheck >/dev/null; then
        echo "-- shellcheck"
        shellcheck -x tools/*.sh sbatch_templates/*.sbatch .ci/run
    fi
fi
echo "-- pytest"
exec .venv/bin/python -m pytest "$@"
