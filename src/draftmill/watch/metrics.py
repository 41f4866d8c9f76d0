"""A run's figures as Prometheus metrics, the same that the monitor shows, on a port of this machine."""

import threading
from collections.abc import Iterable, Iterator
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from draftmill.errors import DraftmillError, UsageFault
from draftmill.watch.diagnosis import diagnose
from draftmill.watch.figures import DatasetFigures, Phase, RunFigures
from draftmill.watch.stats import RunWatch

_LOCAL = "127.0.0.1"  # figures name files and prompts' places: nobody outside gets them unless a proxy is put before
_STATES = ("counting", "surplus", "passed_through", "errors", "owed", "not_needed")
_RATES = ("last_10s", "last_5min", "start", "run")
_QUANTILES = (("0.1", "p10"), ("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"))


class RunCollector(Collector):
    """Looks at the run's files whenever somebody scrapes; what only a closer look would tell is left out, not zero."""

    def __init__(self, watch: RunWatch) -> None:
        self._watch = watch
        self._lock = threading.Lock()  # two scrapes at once must not read the same lines twice

    def describe(self) -> Iterable[Metric]:
        """Nothing is asked at the registration."""
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            try:
                run = self._watch.refresh()
            except (DraftmillError, OSError):
                return
        yield from _run(run)
        for name, help, of in _DATASET_GAUGES:
            yield _gauge(name, help, ["dataset"], [([d.name], of(d)) for d in run.datasets])
        for name, help, of_engine in _ENGINE_GAUGES:
            yield _gauge(name, help, ["engine"], [([e.name], of_engine(e)) for e in run.engines])
        yield from _by_label(run)


def serve(watch: RunWatch, port: int) -> "Server":
    """Serve a run's metrics at ``http://127.0.0.1:port/metrics``. Raises UsageFault where the port is taken."""
    registry = CollectorRegistry()
    registry.register(RunCollector(watch))
    try:
        server, thread = start_http_server(port, addr=_LOCAL, registry=registry)
    except OSError as error:
        raise UsageFault(
            f"--metrics-port {port}: cannot be listened on: {error.strerror}", "give one that is free"
        ) from error
    return Server(server, thread)


class Server:
    """Answers scrapes in threads of its own until it is closed."""

    def __init__(self, server: WSGIServer, thread: threading.Thread) -> None:
        self._server = server
        self._thread = thread
        self.port = server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _run(run: RunFigures) -> Iterator[Metric]:
    """What is said of the run as a whole."""
    phases = [([phase.value], float(run.phase is phase)) for phase in Phase]
    yield _gauge("draftmill_run_phase", "1 for the phase that the run is in.", ["phase"], phases)
    if run.total.eta:
        spans = [(["low"], run.total.eta.low), (["likely"], run.total.eta.seconds), (["high"], run.total.eta.high)]
        yield _gauge("draftmill_run_left_seconds", "Seconds until nothing is owed.", ["bound"], spans)
    if run.disk:
        yield _gauge("draftmill_disk_free_bytes", "Bytes free where the run lies.", [], [([], run.disk.free)])
    findings = [([f.verdict.value, f.level.value, f.subject], 1.0) for f in diagnose(run)]
    yield _gauge("draftmill_finding", "1 for each finding that holds.", ["verdict", "level", "subject"], findings)
    unread = [([u.file], float(u.lines)) for u in run.unread]
    yield _gauge("draftmill_lines_not_understood", "Lines in a shape that is not known.", ["file"], unread)


def _by_label(run: RunFigures) -> Iterator[Metric]:
    """What has a label beside the dataset's name."""
    states = [([d.name, s], getattr(d, s)) for d in run.datasets for s in _STATES]
    yield _gauge("draftmill_prompts", "Prompts by state; the states add up.", ["dataset", "state"], states)
    rates = [([d.name, w], getattr(d.rates, w)) for d in run.datasets for w in _RATES]
    yield _gauge("draftmill_tokens_per_second", "Generated tokens a second.", ["dataset", "window"], rates)
    lengths = [([d.name, q], getattr(d.lengths, p)) for d in run.datasets if d.lengths for q, p in _QUANTILES]
    yield _gauge("draftmill_answer_tokens", "Lengths of answers.", ["dataset", "quantile"], lengths)
    answers = CounterMetricFamily("draftmill_answers", "Answers by how they ended.", labels=["dataset", "finish"])
    generated = CounterMetricFamily("draftmill_generated_tokens", "Tokens of whole answers.", labels=["dataset"])
    failed = CounterMetricFamily("draftmill_errors", "Error rows by kind of reason.", labels=["dataset", "kind"])
    for d in run.datasets:
        generated.add_metric([d.name], d.generated)
        for finish, count in d.finishes.items():
            answers.add_metric([d.name, finish], count)
        kinds: dict[str, int] = {}
        for reason in d.error_reasons:
            kinds[reason.kind] = kinds.get(reason.kind, 0) + reason.count
        for kind, count in kinds.items():
            failed.add_metric([d.name, kind], count)
    yield from (answers, generated, failed)


def _gauge(
    name: str, help: str, labels: list[str], values: "Iterable[tuple[list[str], float | int | None]]"
) -> GaugeMetricFamily:
    metric = GaugeMetricFamily(name, help, labels=labels)
    for label, value in values:
        if value is not None:
            metric.add_metric(label, value)
    return metric


def _thinking(d: DatasetFigures) -> float | None:
    return d.thinking.share if d.thinking else None


_DATASET_GAUGES = (
    ("draftmill_budget_tokens", "Token budget.", lambda d: d.budget),
    ("draftmill_counted_tokens", "Tokens inside the budget's cut.", lambda d: d.counted),
    ("draftmill_growing_tokens", "Tokens of answers that have not ended.", lambda d: d.growing),
    ("draftmill_truncated_share", "Share of answers that a limit cut.", lambda d: d.truncated),
    ("draftmill_thinking_share", "Share of the tokens of a sample of answers that is thinking.", _thinking),
)
_ENGINE_GAUGES = (
    ("draftmill_engine_running", "Requests that run.", lambda e: e.running),
    ("draftmill_engine_queued", "Requests that wait at the server.", lambda e: e.queued),
    ("draftmill_engine_kv_use", "Share of the KV cache in use.", lambda e: e.kv_use),
    ("draftmill_engine_tokens_per_second", "The server's own rate.", lambda e: e.rate),
    ("draftmill_engine_in_flight", "Requests of this run in flight.", lambda e: e.in_flight),
    ("draftmill_engine_cap", "The most that may be in flight.", lambda e: e.cap),
    ("draftmill_engine_retractions", "Requests thrown back in the last minute.", lambda e: e.retractions),
    ("draftmill_engine_up", "1 while it may be given work.", lambda e: float(e.state == "open")),
)
