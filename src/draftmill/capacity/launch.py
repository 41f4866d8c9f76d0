"""The command that starts a server as it was planned."""

import json
import shlex

import msgspec

from draftmill.capacity.pool import llamacpp_context

_SGLANG_KV = {"fp8": "fp8_e4m3", "fp4": "fp4_e2m1", "bf16": "bf16"}
_GIB = 2**30


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What is launched. ``model`` is a path or hub id, ``fraction`` None leaves it to the server, ``hicache`` is GB a
    rank, ``kv_space`` bytes. Of ``dp`` replicas each gets its own GPUs and port."""

    kind: str
    model: str
    tp: int = 1
    pp: int = 1
    dp: int = 1
    fraction: float | None = None
    kv: str = "bf16"
    kv_space: float | None = None
    hicache: float = 0.0
    context: int
    slots: int = 8
    drafter: str | None = None
    algorithm: str | None = None
    trusted: bool = False
    on_gpu: bool = True


def commands(launch: Launch) -> list[str]:
    """One shell command a replica."""
    port = {"sglang": 30_000, "vllm": 8000, "llamacpp": 8080}[launch.kind]
    each = launch.tp * launch.pp
    lines = []
    for replica in range(launch.dp):
        gpus = ",".join(str(replica * each + i) for i in range(each))
        environment = [f"CUDA_VISIBLE_DEVICES={gpus}"] if launch.on_gpu and launch.dp > 1 else []
        if launch.kind == "vllm" and launch.kv_space and not launch.on_gpu:
            environment.append(f"VLLM_CPU_KVCACHE_SPACE={max(1, round(launch.kv_space / _GIB))}")
        words = {"sglang": _sglang, "vllm": _vllm, "llamacpp": _llamacpp}[launch.kind](launch)
        lines.append(" ".join([*environment, shlex.join([*words, "--port", str(port + replica)])]))
    return lines


def _sglang(launch: Launch) -> list[str]:
    words = ["python", "-m", "sglang.launch_server", "--model-path", launch.model]
    words += _sizes(launch, "--tp-size", "--pp-size")
    if launch.fraction is not None:
        words += ["--mem-fraction-static", f"{launch.fraction:g}"]
    words += ["--context-length", str(launch.context)]
    if launch.kv not in ("bf16", "f16"):
        words += ["--kv-cache-dtype", _SGLANG_KV.get(launch.kv, launch.kv)]
    if launch.hicache:
        words += ["--enable-hierarchical-cache", "--hicache-size", f"{launch.hicache:g}"]
    if launch.drafter:
        words += ["--speculative-algorithm", launch.algorithm or "EAGLE3"]
        words += ["--speculative-draft-model-path", launch.drafter, "--speculative-num-steps", "3"]
        words += ["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"]
    return words + _trusted(launch) + ["--enable-metrics"]


def _vllm(launch: Launch) -> list[str]:
    words = ["vllm", "serve", launch.model, *_sizes(launch, "--tensor-parallel-size", "--pipeline-parallel-size")]
    if launch.kv_space and launch.on_gpu:
        words += ["--kv-cache-memory-bytes", str(int(launch.kv_space))]
    elif launch.fraction is not None:
        words += ["--gpu-memory-utilization", f"{launch.fraction:g}"]
    words += ["--max-model-len", str(launch.context)]
    if launch.kv not in ("bf16", "f16"):
        words += ["--kv-cache-dtype", launch.kv]
    if launch.drafter:
        method = {"method": "eagle3", "model": launch.drafter, "num_speculative_tokens": 3}
        words += ["--speculative-config", json.dumps(method)]
    return words + _trusted(launch)


def _llamacpp(launch: Launch) -> list[str]:
    words = ["llama-server", "-m", launch.model, "-np", str(launch.slots)]
    words += ["-c", str(llamacpp_context(launch.context, launch.slots))]
    if launch.on_gpu:
        words += ["-ngl", "999"]
    if launch.kv not in ("f16", "bf16"):
        words += ["-fa", "on", "-ctk", launch.kv, "-ctv", launch.kv]
    return [*words, "--metrics"]


def _sizes(launch: Launch, tp: str, pp: str) -> list[str]:
    words = [tp, str(launch.tp)] if launch.tp > 1 else []
    return words + ([pp, str(launch.pp)] if launch.pp > 1 else [])


def _trusted(launch: Launch) -> list[str]:
    return ["--trust-remote-code"] if launch.trusted else []
