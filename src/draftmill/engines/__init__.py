"""Inference servers behind one protocol: token ids in, token ids out."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from draftmill.engines.detect import detect
from draftmill.engines.http import Http
from draftmill.engines.protocol import Engine
from draftmill.errors import SetupFault
from draftmill.recipe import EMBEDDED, EngineSpec


async def connect(
    spec: EngineSpec,
    *,
    gguf: Path | None = None,
    log: Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> Engine:
    """The client of the engine that a recipe names. ``gguf`` and ``log`` are for the embedded one, which is started,
    and ``tell`` hears when it had to be started again.

    A kind that is given is believed; ``auto`` asks the server. Raises SetupFault or TransportFault.
    """
    if spec.kind == EMBEDDED:
        return await _start(spec, gguf, log, tell)
    if spec.url is None:
        raise SetupFault("the engine has no url")
    http = Http(spec.kind, spec.url, _key(spec.api_key_env))
    try:
        if spec.kind == "auto":
            http.engine = await detect(http, spec.api_key_env)
    except BaseException:
        await http.close()
        raise
    match http.engine:
        case "sglang":
            from draftmill.engines.sglang import SGLang

            return SGLang(http)
        case "vllm":
            from draftmill.engines.vllm import VLLM

            return VLLM(http, spec.model)
        case _:
            from draftmill.engines.llamacpp import LlamaCpp

            return LlamaCpp(http, spec.prompt_cache)


async def _start(spec: EngineSpec, gguf: Path | None, log: Path | None, tell: Callable[[str], None] | None) -> Engine:
    from draftmill.engines.embedded import Embedded
    from draftmill.engines.retype import retyped

    if gguf is None:
        raise SetupFault("the embedded engine needs a .gguf file", "name it with gguf or model in the recipe")
    if spec.weights:
        if not gguf.is_file():
            raise SetupFault(f"{gguf}: no such GGUF file")
        gguf = await asyncio.to_thread(retyped, gguf, spec.weights)
    return await Embedded.start(
        gguf,
        slots=spec.slots,
        context=spec.context,
        threads=spec.threads,
        kv=spec.kv,
        prompt_cache=spec.prompt_cache,
        log=log,
        tell=tell,
    )


def _key(env: str | None) -> str | None:
    if env is None:
        return None
    if key := os.environ.get(env, "").strip():
        return key
    raise SetupFault(f"the variable {env} that api_key_env names is not set", f"export {env}=… before the run")
