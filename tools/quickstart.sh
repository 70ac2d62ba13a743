#!/usr/bin/env bash
# From nothing to a small trained model on this machine: the prose of the Python environment is read,
# filtered, deduplicated, scrubbed and tokenized, and a Transformer is trained on it and exported.
# Further arguments go to the launcher:  bash tools/quickstart.sh train.steps=500
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/environment.sh
. tools/environment.sh

prepare_environment
echo "-- python -m hpc_llm.launch $*"
exec .venv/bin/python -m hpc_llm.launch "$@"
