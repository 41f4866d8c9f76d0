"""Which server a URL is of: two spellings of one server must not make it two engines."""

import re
from urllib.parse import urlsplit

_HERE = {"localhost", "::1", "0.0.0.0", "::"}  # noqa: S104 - nothing is bound: all of them lead to 127.0.0.1
_PORTS = {"http": 80, "https": 443}


def plain_url(url: str) -> str:
    """The URL without a slash at its end. Raises ValueError for one that is no server's."""
    if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", url) or not _has_port(url):
        raise ValueError("is not a server's URL; write for example http://127.0.0.1:30000 (keys go into api_key_env)")
    return url.rstrip("/")


def server_of(url: str) -> str:
    """One text for all spellings of a server: host names in lower case, this machine's names, the usual port."""
    if not _has_port(url):
        return url
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{parts.scheme}://{'127.0.0.1' if host in _HERE else host}:{parts.port or _PORTS.get(parts.scheme)}" + (
        parts.path.rstrip("/")
    )


def _has_port(url: str) -> bool:
    """Whether the URL's host and port can be told at all."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False
