"""The words that start a server, and where each replica of it lies."""

from typing import Any

import pytest

from draftmill.capacity.launch import Invocation, Launch, commands, invocation

GIB = float(2**30)


def launch(**values: Any) -> Launch:
    return Launch(**({"kind": "sglang", "model": "models/m", "context": 4096} | values))


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {"fraction": 0.88, "tp": 8},
            "python -m sglang.launch_server --model-path models/m --tp-size 8 --mem-fraction-static 0.88 "
            "--context-length 4096 --enable-metrics --host 127.0.0.1 --port 30000",
        ),
        ({"kind": "vllm"}, "vllm serve models/m --max-model-len 4096 --host 127.0.0.1 --port 8000"),
        (  # the module takes no model but by its option
            {"kind": "vllm", "command": (".v/bin/python", "-m", "vllm.entrypoints.openai.api_server")},
            ".v/bin/python -m vllm.entrypoints.openai.api_server --model models/m --max-model-len 4096 "
            "--host 127.0.0.1 --port 8000",
        ),
        (
            {"kind": "vllm", "kv_space": 2 * GIB, "on_gpu": False, "options": ("--dtype", "float32")},
            "VLLM_CPU_KVCACHE_SPACE=2 vllm serve models/m --max-model-len 4096 --host 127.0.0.1 --port 8000 "
            "--dtype float32",
        ),
        (
            {"kind": "llamacpp", "slots": 4, "context": 500, "ports": (9001,)},
            "llama-server -m models/m -np 4 -c 2048 -ngl 999 --metrics --host 127.0.0.1 --port 9001",
        ),
        (
            {"kind": "llamacpp", "environment": {"HF_TOKEN": "hf_xyz", "A": "b c"}, "on_gpu": False},
            "HF_TOKEN=\"$HF_TOKEN\" A='b c' llama-server -m models/m -np 8 -c 32768 --metrics "
            "--host 127.0.0.1 --port 8080",
        ),
    ],
)
def test_the_command(values: dict[str, Any], line: str) -> None:
    assert commands(launch(**values)) == [line]


def test_a_replica_has_gpus_and_a_port_of_its_own() -> None:
    planned = launch(tp=2, dp=3, devices=("2", "3", "4", "5", "6", "7"), ports=(9000, 9100))
    assert [planned.gpus(n) for n in range(3)] == [("2", "3"), ("4", "5"), ("6", "7")]
    assert [planned.port(n) for n in range(3)] == [9000, 9100, 30_000]
    assert invocation(planned, 1).environment == {"CUDA_VISIBLE_DEVICES": "4,5"}
    assert planned.url(2) == "http://127.0.0.1:30000"


def test_without_devices_the_first_ones() -> None:
    assert launch(tp=2, dp=2).gpus(1) == ("2", "3")
    assert invocation(launch(tp=2)).environment == {}  # all there are, as whoever launches has them
    assert launch(tp=2, on_gpu=False).gpus(0) == ()


def test_own_environment_wins() -> None:
    planned = launch(kind="vllm", kv_space=GIB, on_gpu=False, environment={"VLLM_CPU_KVCACHE_SPACE": "3"})
    assert invocation(planned).environment == {"VLLM_CPU_KVCACHE_SPACE": "3"}


def test_a_secret_is_not_printed() -> None:
    assert "hf_xyz" not in Invocation(("x",), {"HF_TOKEN": "hf_xyz"}).shell()
