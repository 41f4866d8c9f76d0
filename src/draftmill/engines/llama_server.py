"""llama.cpp's server out of its wheel, with the flags of ``llama-server``.

``python -m draftmill.engines.llama_server -m MODEL.gguf -np SLOTS -c TOKENS --port PORT``

It stands in where no ``llama-server`` is installed, and knows the flags that a launch uses and a few more. Its API key,
where it has one, comes in ``LLAMA_API_KEY`` as there. What it reads before the library loads is said in
``embedded_server``.
"""

import argparse
import os
import sys
import threading

from draftmill.engines.embedded_server import parameters

_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")


def main(words: list[str] | None = None) -> None:
    given = arguments(words)
    os.environ["OMP_WAIT_POLICY"] = "passive"
    import xllamacpp

    params = parameters(slots=given.parallel, context=given.ctx_size, threads=given.threads, cache=given.cache_prompt)
    params.model.path = given.model
    params.hostnames, params.port = [given.host], given.port
    params.n_gpu_layers = given.n_gpu_layers
    params.cache_type_k = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{given.cache_type_k.upper()}")
    params.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{given.cache_type_v.upper()}")
    flash = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}[given.flash_attn]
    params.flash_attn_type = getattr(xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{flash}")
    params.cors_origins = f"http://{given.host}:{given.port}"  # by default any web page may call it
    if key := os.environ.get("LLAMA_API_KEY"):
        params.api_keys = [key]
    try:
        server = xllamacpp.Server(params)
    except Exception as error:
        print(f"the server did not start: {error}", file=sys.stderr, flush=True)  # the log above says why
        sys.exit(1)
    print(f"main: server is listening on {server.listening_address}", file=sys.stderr, flush=True)
    threading.Event().wait()


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """What the command line says; ends the process with status 2 for a flag that is not known."""
    parser = argparse.ArgumentParser("llama_server", allow_abbrev=False)
    add = parser.add_argument
    add("-m", "--model", required=True)
    add("-np", "--parallel", type=int, default=1)
    add("-c", "--ctx-size", type=int, default=4096, help="tokens in all, divided over the slots")
    add("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)) if sys.platform == "linux" else None)
    add("-ngl", "--n-gpu-layers", type=int, default=-1)
    add("-ctk", "--cache-type-k", choices=_TYPES, default="f16")
    add("-ctv", "--cache-type-v", choices=_TYPES, default="f16")
    add("-fa", "--flash-attn", choices=("on", "off", "auto"), default="auto")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8080)
    add("--metrics", action="store_true", help="always on")
    add("--no-cache-prompt", dest="cache_prompt", action="store_false")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
