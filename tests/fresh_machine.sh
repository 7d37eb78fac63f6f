#!/usr/bin/env bash
# A fresh machine: a new virtual environment with requirements.txt alone, an empty home, the port from the
# environment. Serves the page, loads the built-in pair, decodes a prompt by the API, then cleans up.
#   tests/fresh_machine.sh [FOLDER]     FOLDER: where to work; left out, a temporary one that is removed
set -euo pipefail

repo="$(cd "$(dirname "$0")/.." && pwd)"
work="${1:-$(mktemp -d)}"
mkdir -p "$work"
[ $# -gt 0 ] || trap 'rm -rf "$work"' EXIT
python="${PYTHON:-python3}"

echo "== a copy of what is committed, and an environment with requirements.txt alone"
rm -rf "$work/demo" && mkdir "$work/demo" && git -C "$repo" archive HEAD | tar -x -C "$work/demo"
[ -x "$work/venv/bin/python" ] || "$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -q -r "$work/demo/requirements.txt"
if "$work/venv/bin/python" -c "import pytest" 2>/dev/null; then
    echo "FAILED: a test tool came with requirements.txt" >&2
    exit 1
fi

port="$("$work/venv/bin/python" -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])")"
rm -rf "$work/home" && mkdir "$work/home"
echo "== python app.py on port $port, with an empty home"
cd "$work/demo"
env -i PATH="/usr/bin:/bin" HOME="$work/home" PORT="$port" LANG=C.UTF-8 \
    ${HTTPS_PROXY:+HTTPS_PROXY="$HTTPS_PROXY"} ${SSL_CERT_FILE:+SSL_CERT_FILE="$SSL_CERT_FILE"} \
    ${PIP_CERT:+PIP_CERT="$PIP_CERT"} ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} \
    "$work/venv/bin/python" app.py >"$work/server.log" 2>&1 &
server=$!
stop() { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
[ $# -gt 0 ] && trap stop EXIT || trap 'stop; rm -rf "$work"' EXIT

"$work/venv/bin/python" - "$port" "$server" <<'PYTHON'
import json, os, sys, time, urllib.request

port, server = sys.argv[1], int(sys.argv[2])
url = f"http://127.0.0.1:{port}"
began = time.time()


def read(path, body=None, timeout=600):
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url + path, data=data, headers={"Content-Type": "application/json"})
    return urllib.request.urlopen(asked, timeout=timeout).read().decode()


def call(name, **asked):
    event = json.loads(read(f"/gradio_api/call/v2/{name}", asked))["event_id"]
    told = read(f"/gradio_api/call/{name}/{event}")
    if "event: complete" not in told:
        sys.exit(f"FAILED: /{name} answered: {told[-500:]}")
    return json.loads(told.split("event: complete\ndata: ")[1].splitlines()[0])[0]


while True:
    try:
        page = read("/")
        break
    except OSError:
        os.kill(server, 0)  # raises where the server has ended
        if time.time() - began > 120:
            sys.exit("FAILED: no page within two minutes")
        time.sleep(0.5)
print(f"== the page is there after {time.time() - began:.0f} s")
assert "EAGLE-2, step by step" in page
assert call("law", target=[0.51, 0.49], rule="misreading")["total_variation"] > 0.48
print("== the rule lab answers without a model")
made = call("generate", prompt="Why is the sky blue?", temperature=0, seed=1, max_new_tokens=24)
print(f"== the built-in pair decoded {made['new_tokens']} tokens after {time.time() - began:.0f} s: {made['text']!r}")
assert made["new_tokens"] == 24 and made["tau"] > 1
PYTHON
if grep -q "Traceback\|DeprecationWarning" "$work/server.log"; then
    echo "FAILED: the server's log:" >&2
    cat "$work/server.log" >&2
    exit 1
fi
echo "== a fresh machine serves the demo"
