"""What tests of several rooms share: the small model and one embedded engine for the whole session."""

import asyncio
import importlib.util
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import settings

from draftmill.engines.embedded import Embedded
from draftmill.engines.http import Http
from draftmill.engines.llamacpp import LlamaCpp
from draftmill.engines.small_model import small_model as fetch_small_model
from draftmill.mill import voices
from draftmill.render import tokenizer

T = TypeVar("T")

settings.register_profile("any machine", deadline=None)  # a busy one may take its time
settings.load_profile("any machine")

# a shell lets what it starts in the background ignore Ctrl-C, and so would all that the tests start and interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)

SLOTS = 4
CONTEXT = 512


class EmbeddedServer(NamedTuple):
    """A running embedded server: connect to it from any event loop with ``client()``."""

    url: str
    key: str
    gguf: Path

    def client(self, prompt_cache: bool = True) -> LlamaCpp:
        return LlamaCpp(Http("llamacpp", self.url, self.key), prompt_cache)


@pytest.fixture(scope="session")
def small_model() -> Path:
    """The SmolLM2 GGUF, fetched once into the cache."""
    return fetch_small_model()


@pytest.fixture(scope="session")
def embedded_server(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """One server of 4 slots with 512 tokens each, shared by all tests. Do not kill it; start your own for that."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.fail("the tests marked embedded need draftmill[embedded]; leave them out with -m 'not embedded'")
    log = tmp_path_factory.mktemp("embedded") / "server.log"
    loop = asyncio.new_event_loop()  # it owns the process for the session, while tests run loops of their own
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    engine = run(Embedded.start(small_model, slots=SLOTS, context=CONTEXT, log=log))
    yield EmbeddedServer(engine.url, engine.key, small_model)
    run(engine.close())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def with_embedded(embedded_server: EmbeddedServer) -> Callable[[Callable[[LlamaCpp], Coroutine[Any, Any, T]]], T]:
    """Run ``async def use(engine)`` against the shared server, in a loop of its own."""

    def run(use: Callable[[LlamaCpp], Coroutine[Any, Any, T]]) -> T:
        async def body() -> T:
            engine = embedded_server.client()
            try:
                return await use(engine)
            finally:
                await engine.close()

        return asyncio.run(body())

    return run


@pytest.fixture
def few_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start in this process asks its engines for 2 ids of each passage and not for 24, which takes the small model
    two seconds: for tests that start many runs and look at none of their voices."""
    monkeypatch.setattr(voices, "_IDS", 2)


@pytest.fixture(scope="session")
def tokenizer_folder(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model's tokenizer as a directory: it loads in a fraction of the time that its GGUF takes."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.load(str(small_model)).save(folder)
    return folder
