"""Which kind of server answers at a URL."""

from typing import Any

import msgspec

from draftmill.engines import faults
from draftmill.engines.http import Http
from draftmill.errors import SetupFault

# kind -> calls that all must answer, each with a key that only this server's JSON has there
_SIGNS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("sglang", (("/model_info", "model_path"),)),
    ("sglang", (("/get_model_info", "model_path"),)),  # before 0.5.6
    ("llamacpp", (("/props", "default_generation_settings"),)),
    ("vllm", (("/version", "version"), ("/v1/models", "data"))),
)


async def detect(http: Http, key_env: str | None = None) -> str:
    """``sglang``, ``vllm`` or ``llamacpp``.

    Raises SetupFault for a refused API key (``key_env`` is the variable it came from) and for any other server,
    TransportFault when none answers or it is still loading its model.
    """
    for kind, signs in _SIGNS:
        if all([await _shows(http, path, key, key_env) for path, key in signs]):
            return kind
    raise SetupFault(
        f"{http.name}: neither SGLang, vLLM nor llama.cpp answers there",
        "check the engine's url (host, port, and no path), or set its kind",
    )


async def _shows(http: Http, path: str, key: str, key_env: str | None) -> bool:
    status, body = await http.status(path)
    if status in (401, 403):
        raise _refused(http.name, status, key_env)
    if status in (408, 429) or (status >= 500 and status != 501):
        raise faults.of_status("", http.name, status, body)
    if status != 200:
        return False
    try:
        return key in msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        return False


def _refused(name: str, status: int, key_env: str | None) -> SetupFault:
    if key_env is None:
        return SetupFault(
            f"{name}: the server wants an API key (HTTP {status})",
            "put it into an environment variable and name that with api_key_env in the recipe",
        )
    return SetupFault(
        f"{name}: the API key in ${key_env} is refused (HTTP {status})", f"set {key_env} to the right key"
    )
