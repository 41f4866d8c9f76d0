"""``draftmill report``: a run as one HTML file to keep and send, and the same figures as JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftmill.cli.options import Json, refuse_no_run

if TYPE_CHECKING:
    from draftmill.watch.report.facts import Facts


def report(
    run: Annotated[Path, typer.Argument(help="The run's folder; one of another version will do.")],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; RUN/report.html unless given. The JSON is written beside it.")
    ] = None,
    samples: Annotated[
        int, typer.Option(min=0, max=20, help="Decoded answers of each dataset; 0 to show no prompt and no answer.")
    ] = 2,
    json: Json = False,
) -> None:
    """One HTML file of a run: what came, what it means, how it went, and samples. It needs no network and no script.

    Also while the run is on: its files are only read, never locked. What is
    not known is said, and is never a zero.

    Example: draftmill report runs/kimi --out kimi.html
    """
    import msgspec

    from draftmill.cli.console import result
    from draftmill.errors import StorageError, UsageFault
    from draftmill.journal.files import replacing
    from draftmill.watch.report.facts import gather, json_of
    from draftmill.watch.report.page import page_of
    from draftmill.watch.stats import RunWatch

    page = (out / "report.html" if out.is_dir() else out) if out else run / "report.html"
    if page.suffix == ".json":
        raise UsageFault(f"--out: {page} would be the JSON beside the page", "name the HTML file")
    refuse_no_run(run)
    watch = RunWatch(run)
    facts = gather(watch, samples)
    for path, content in ((page.with_suffix(".json"), json_of(facts)), (page, page_of(facts))):
        try:
            with replacing(path) as temporary:
                temporary.write_bytes(content)
        except StorageError as error:
            raise StorageError(error.message, "name a file elsewhere: --out PAGE.html") from error
    if json:
        files = {"page": str(page), "figures": str(page.with_suffix(".json"))}
        typer.echo(msgspec.json.encode({**files, "findings": facts.findings, "not_known": facts.not_known}).decode())
    with result(json=json):
        _say(facts, page)


def _say(facts: "Facts", page: Path) -> None:
    """Where it is, what it says first, and what it does not know."""
    from draftmill.cli.console import advise, label

    finding = facts.findings[0]
    label("report", f"{page}, {page.stat().st_size / 1000:,.0f} kB; the same figures in {page.with_suffix('.json')}")
    label("finding", finding.message)
    for unknown in facts.not_known:
        label("not known", f"{unknown.what}: {unknown.why}", style="yellow")
    advise("open it in a browser, on a phone too, or print it; it is one file")
