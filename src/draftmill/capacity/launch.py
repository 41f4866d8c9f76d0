"""The command that starts a server as it was planned, one for each replica."""

import json
import re
import shlex
from collections.abc import Mapping

import msgspec

from draftmill.capacity.pool import llamacpp_context

HERE = "127.0.0.1"
PORTS = {"sglang": 30_000, "vllm": 8000, "llamacpp": 8080}
COMMANDS = {
    "sglang": ("python", "-m", "sglang.launch_server"),
    "vllm": ("vllm", "serve"),
    "llamacpp": ("llama-server",),
}
_SGLANG_KV = {"fp8": "fp8_e4m3", "fp4": "fp4_e2m1", "bf16": "bf16"}
_PLAIN = ("bf16", "f16", "f32")  # SGLang and vLLM take their weights' type for the cache then
_GIB = 2**30
_SECRET = re.compile("TOKEN|KEY|SECRET|PASS", re.IGNORECASE)


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What is launched. ``model`` is a path or hub id, ``fraction`` None leaves it to the server, ``hicache`` is GB a
    rank, ``kv_space`` bytes. Of ``dp`` replicas each gets its own GPUs and port: out of ``devices``, or the first
    ones, and of ``ports``, or the kind's usual ones.

    ``command`` are the words before the options, the kind's usual ones unless given; ``options`` stand behind all
    others, ``environment`` is laid over that of whoever launches.
    """

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
    command: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    devices: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()

    def gpus(self, replica: int) -> tuple[str, ...]:
        """The GPUs of a replica, as ``CUDA_VISIBLE_DEVICES`` names them; none where there is no GPU."""
        if not self.on_gpu:
            return ()
        each = self.tp * self.pp
        devices = self.devices or tuple(map(str, range(each * self.dp)))
        return devices[replica * each : (replica + 1) * each]

    def port(self, replica: int) -> int:
        """Where a replica listens."""
        if replica < len(self.ports):
            return self.ports[replica]
        return max((PORTS[self.kind] - 1, *self.ports)) + 1 + replica - len(self.ports)

    def url(self, replica: int = 0) -> str:
        return f"http://{HERE}:{self.port(replica)}"


class Invocation(msgspec.Struct, frozen=True):
    """How one replica is started: the words of its command, and what is laid over the environment."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = {}

    def shell(self) -> str:
        """The same for a shell. A value that looks like a secret is left to the shell's own environment."""
        given = [
            f'{name}="${name}"' if _SECRET.search(name) else f"{name}={shlex.quote(value)}"
            for name, value in self.environment.items()
        ]
        return " ".join([*given, shlex.join(self.words)])


def invocation(launch: Launch, replica: int = 0) -> Invocation:
    """The command of one replica. It listens on this machine only."""
    environment = {}
    if launch.on_gpu and (launch.dp > 1 or launch.devices):
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(launch.gpus(replica))
    if launch.kind == "vllm" and launch.kv_space and not launch.on_gpu:
        environment["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, round(launch.kv_space / _GIB)))
    own = {"sglang": _sglang, "vllm": _vllm, "llamacpp": _llamacpp}[launch.kind](launch)
    where = ["--host", HERE, "--port", str(launch.port(replica))]
    words = [*(launch.command or COMMANDS[launch.kind]), *own, *where, *launch.options]
    return Invocation(tuple(words), environment | dict(launch.environment))


def commands(launch: Launch) -> list[str]:
    """One shell command a replica."""
    return [invocation(launch, replica).shell() for replica in range(launch.dp)]


def _sglang(launch: Launch) -> list[str]:
    words = ["--model-path", launch.model, *_sizes(launch, "--tp-size", "--pp-size")]
    if launch.fraction is not None:
        words += ["--mem-fraction-static", f"{launch.fraction:g}"]
    words += ["--context-length", str(launch.context)]
    if launch.kv not in _PLAIN:
        words += ["--kv-cache-dtype", _SGLANG_KV.get(launch.kv, launch.kv)]
    if launch.hicache:
        words += ["--enable-hierarchical-cache", "--hicache-size", f"{launch.hicache:g}"]
    if launch.drafter:
        words += ["--speculative-algorithm", launch.algorithm or "EAGLE3"]
        words += ["--speculative-draft-model-path", launch.drafter, "--speculative-num-steps", "3"]
        words += ["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"]
    return words + _trusted(launch) + ["--enable-metrics"]


def _vllm(launch: Launch) -> list[str]:
    serve = "serve" in (launch.command or COMMANDS["vllm"])  # which refuses --model; the module knows nothing else
    words = [launch.model] if serve else ["--model", launch.model]
    words += _sizes(launch, "--tensor-parallel-size", "--pipeline-parallel-size")
    if launch.kv_space and launch.on_gpu:
        words += ["--kv-cache-memory-bytes", str(int(launch.kv_space))]
    elif launch.fraction is not None:
        words += ["--gpu-memory-utilization", f"{launch.fraction:g}"]
    words += ["--max-model-len", str(launch.context)]
    if launch.kv not in _PLAIN:
        words += ["--kv-cache-dtype", launch.kv]
    if launch.drafter:
        method = {"method": "eagle3", "model": launch.drafter, "num_speculative_tokens": 3}
        words += ["--speculative-config", json.dumps(method)]
    return words + _trusted(launch)


def _llamacpp(launch: Launch) -> list[str]:
    words = ["-m", launch.model, "-np", str(launch.slots)]
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
