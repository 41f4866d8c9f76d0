"""The process of the embedded llama.cpp server: ``python -m draftmill.engines.embedded_server``.

Its configuration, the API key in it, comes as one JSON line on stdin, never as an argument or in the environment where
other users could read it. It prints its address as one JSON line and ends when its stdin does, which the kernel sees to
even when the parent is killed. It is a process of its own because llama.cpp's OpenMP threads spin: beside another
busy thread they would take both down, unless they wait passively, which must be settled before the library loads.
"""

import os
import sys
import threading

import msgspec


class Config(msgspec.Struct, frozen=True):
    """``context`` is tokens a slot, ``kv`` llama.cpp's type of what is kept of them."""

    gguf: str
    slots: int
    context: int
    threads: int
    prompt_cache: bool
    key: str
    kv: str = "f16"

    def __repr__(self) -> str:
        return f"Config({self.gguf})"  # no key


class Listening(msgspec.Struct, frozen=True):
    """The line that says that the model is loaded."""

    url: str


def main() -> None:
    config = msgspec.json.decode(sys.stdin.buffer.readline(), type=Config)
    out = os.dup(1)
    os.dup2(2, 1)  # whatever the library prints belongs to the log
    os.environ["OMP_WAIT_POLICY"] = "passive"
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        server = _serve(config)
    except Exception as error:
        print(f"the server did not start: {error}", file=sys.stderr, flush=True)  # the log above says why
        os._exit(1)
    os.write(out, msgspec.json.encode(Listening(url=server.listening_address)) + b"\n")
    threading.Event().wait()


def _serve(config: Config) -> "xllamacpp.Server":  # type: ignore[name-defined]  # noqa: F821
    import xllamacpp

    params = parameters(config.slots, config.slots * config.context, config.threads, config.prompt_cache)
    params.model.path = config.gguf
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type[f"GGML_TYPE_{config.kv.upper()}"]
    if config.kv.startswith("q"):  # quantised values are read by flash attention alone
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [config.key]
    return xllamacpp.Server(params)


def parameters(slots: int, context: int, threads: int | None, cache: bool) -> "xllamacpp.CommonParams":  # type: ignore[name-defined]  # noqa: F821
    """What every server of ours has in common; ``context`` is tokens in all."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.n_parallel = slots
    params.n_ctx = context
    params.fit_params = False  # it would lower the context to fit the memory
    if threads:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_prompt = cache
    params.cache_ram_mib = 512 if cache else 0  # 8 GiB by default
    params.n_threads_http = 512  # each waiting generation holds one, and /metrics must still get through
    params.endpoint_metrics = params.endpoint_slots = params.endpoint_props = True
    params.ui = False
    return params


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
