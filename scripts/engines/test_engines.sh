#!/bin/bash
# usage: test_engines.sh [install|vllm|sglang …]    (both engines without arguments; install: nothing but that)
# Runs the engine contract on a real vLLM and a real SGLang server on the CPU, two parts at a time: a server takes forty
# seconds to start, on one core. Installs each into .engines/ first where it is missing (minutes, and some GiB). A server
# that does not come up is a failure, never a skip.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=scripts/engines engines=.engines model=.engines/smollm2
python=${PYTHON:-.venv/bin/python}
start_seconds=900  # a busy machine takes minutes
leader=
# One thread a server, bound to no core: two of vLLM's would share the first one, and of two threads on two cores each
# waits for the other.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} VLLM_CPU_OMP_THREADS_BIND=${VLLM_CPU_OMP_THREADS_BIND:-nobind}

stop() {  # the server's whole process group: its children outlive it by seconds
  [ -n "$leader" ] || return 0
  local group=$leader; leader=
  kill -TERM -- "-$group" 2>/dev/null || true
  for _ in $(seq 60); do
    kill -0 -- "-$group" 2>/dev/null || return 0
    sleep 0.5
  done
  kill -KILL -- "-$group" 2>/dev/null || true
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() { echo "test_engines: $1" >&2; exit 1; }

install() {
  [ ! -e "$engines/$1/installed" ] || return 0
  echo "== installing $1 into $engines/$1"
  rm -rf "${engines:?}/$1"  # a half installed one is worth nothing
  mkdir -p "$engines"
  "$here/install_$1.sh" "$engines/$1" >"$engines/install_$1.log" 2>&1 ||
    { tail -n 30 "$engines/install_$1.log" >&2; fail "$1 could not be installed"; }
}

export_model() {
  [ -e "$model/fp32/config.json" ] && return
  echo "== exporting SmolLM2 to $model"
  rm -rf "$model" "$model.part"
  "$engines/vllm/bin/python" "$here/export_smollm2.py" "$model.part"
  mv "$model.part" "$model"
}

export_gguf() {  # the same float32 weights for llama.cpp
  [ -e "$model/f32.gguf" ] && return
  local quantised
  quantised=$("$python" -c 'from draftmill.engines.small_model import small_model; print(small_model())')
  "$python" "$here/retype_gguf.py" "$quantised" "$model/f32.gguf" F32
}

pytest_on() { DRAFTMILL_ENGINES=$PWD/$engines "$python" -m pytest -m engine -rs --durations=8 "$@"; }

test_two() {  # this test starts vLLM itself, since it kills it
  pytest_on tests/engines/test_two_servers.py || fail "two servers in one run"
}

test_planned() {  # starts its servers itself, with settings of its own
  pytest_on -k "$1" tests/engines/test_planned_servers.py || fail "$1 holds other tokens than planned"
}

test_kept() {  # starts its servers itself, and kills them
  pytest_on -k "$1" tests/engines/test_kept_servers.py || fail "$1 is not kept alive"
}

test_served() {  # the contract, runs, replays and comparisons on one server
  local name=$1 variable=DRAFTMILL_${1^^}_URL
  local log=$engines/$name.log began=$SECONDS port cases=() options=()
  # other weights than the server's: twice the time of all the rest, and the same judgement on either server
  [ "$name" = vllm ] || { cases=(-k 'not other_weights'); options=(--context-length 1024); }
  port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  echo "== starting $name on port $port (log: $log)"
  setsid "$here/start_$name.sh" "$engines/$name" "$model/fp32" "$port" --dtype float32 "${options[@]}" >"$log" 2>&1 </dev/null &
  leader=$!
  disown  # how it ends is no news: stop() kills it
  until curl -sf -o /dev/null -m 5 "http://127.0.0.1:$port/health"; do
    kill -0 "$leader" 2>/dev/null || { tail -n 40 "$log" >&2; fail "$name died while starting"; }
    [ $((SECONDS - began)) -lt $start_seconds ] || { tail -n 40 "$log" >&2; fail "$name is not ready after $start_seconds s"; }
    sleep 1
  done
  echo "== $name is ready after $((SECONDS - began)) s"
  env "$variable=http://127.0.0.1:$port" "$python" -m pytest -m engine -rs --durations=8 "tests/engines/test_${name}_server.py" tests/engines/test_served_run.py ||
    { tail -n 20 "$log" >&2; fail "$name does not keep the contract"; }
  env "$variable=http://127.0.0.1:$port" "$python" -m pytest -m engine -rs --durations=8 ${cases[@]+"${cases[@]}"} tests/engines/test_replayed.py tests/engines/test_compared.py ||
    { tail -n 20 "$log" >&2; fail "$name: a replay or a comparison judges otherwise"; }
  stop
}

if [ "${1-}" = part ]; then  # what it says is printed at its end, in one piece
  name="$3 $2" said=$engines/test_$2_$3.log
  echo "== $name begins"
  exec 3>&1 >"$said" 2>&1
  trap 'ended=$?; stop; cat "$said" >&3; echo "== $name ended with $ended after $SECONDS s" >&3' EXIT
  "test_$2" "$3"
  exit
fi
[ "${1-}" != install ] || { install vllm; install sglang; export_model; exit; }
[ $# -gt 0 ] || set -- vllm sglang
install vllm  # its Python exports the model for both
beside=() alone=()
for name in "$@"; do
  case $name in
    vllm) beside+=(served vllm kept vllm two vllm planned vllm) ;;
    # it plans with the memory of the host, which no other server may change meanwhile
    sglang) install sglang; beside=(served sglang "${beside[@]}"); alone+=(planned sglang) ;;
    *) fail "no engine $name; there are vllm and sglang" ;;
  esac
done
export_model
export_gguf
printf '%s\n' "${beside[@]}" | xargs -P 2 -n 2 "$0" part || fail "not every part ended with 0"
[ ${#alone[@]} = 0 ] || "$0" part "${alone[@]}"
echo "== all engines keep the contract ($SECONDS s)"
