#!/bin/sh
# Prints artifacts of the conversation: annals-ctx fetch PATH...
tools=$(dirname "$0")/..
if command -v python3 >/dev/null 2>&1; then exec python3 "$tools/context_tools.py" "$@"; fi
if command -v node >/dev/null 2>&1; then exec node "$tools/context_tools.js" "$@"; fi
echo "annals-ctx: neither python3 nor node is here to talk to the conversation" >&2
exit 1
