"""The page in a real browser, where there is one: nothing is cut on a phone, no word of the console."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftmill.watch.report.facts import Facts, gather
from draftmill.watch.report.page import page_of
from draftmill.watch.report.samples import Sample, Span
from draftmill.watch.stats import RunWatch
from tests.watch.folders import NOW, append, begin, completion, done, event, failure, load

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the page was not opened in a browser")

# In a frame of a phone's width: media queries see that width, and no window is as narrow.
MEASURE = """<!doctype html><iframe id=f src="report.html" style="border:0;width:%dpx;height:900px"></iframe>
<pre id=o></pre><script>
f.onload = () => {
  const d = f.contentDocument, w = d.documentElement.clientWidth, cut = [];
  const walk = d.createTreeWalker(d.body, NodeFilter.SHOW_TEXT);
  for (let n; n = walk.nextNode();) {
    const range = d.createRange(); range.selectNodeContents(n);
    const r = range.getBoundingClientRect(), box = n.parentElement.closest('td,.card,body').getBoundingClientRect();
    if (n.data.trim() && r.width && (r.right > box.right + 1 || r.left < box.left - 1)) cut.push(n.data.trim());
  }
  const over = [];
  for (const plot of d.querySelectorAll('.plot')) {
    const seen = [...plot.querySelectorAll('span')].map(e => [e.textContent, e.getBoundingClientRect()]);
    seen.forEach(([a, r], i) => seen.slice(i + 1).forEach(([b, q]) => {
      const beside = r.left >= q.right - 1 || q.left >= r.right - 1;
      if (!beside && r.top < q.bottom - 2 && q.top < r.bottom - 2) over.push([a, b]);
    }));
  }
  o.textContent = JSON.stringify({width: w, needed: d.documentElement.scrollWidth, cut, over});
};
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything in it, its names and numbers as long as they get."""
    place = tmp_path_factory.mktemp("report")
    names = ["B2_opencodeinstruct_" + "x" * 40, "tools", "code"]
    folder = begin(place / "run", *({"name": n, "prompts": 60, "budget": 12_345_678} for n in names))
    append(
        folder.events, event(NOW, "milling"), event(NOW + 300, "lost", "http://e", "x" * 200), event(NOW + 301, "back")
    )
    for number, name in enumerate(names):
        files = folder.dataset(name)
        append(files.journal, *(completion(n, 10 + 3 * n, name) for n in range(50 - 20 * number)))
        append(files.errors, failure(55, "a reason that is long " * 12, name, where="/data/" + "deep/" * 30))
    for t in range(0, 600, 5):
        tokens = dict.fromkeys(names, (1, 0, 20_000 * t, 5))
        append(folder.load, done(NOW + t, **tokens), load(NOW + t, kv_used=50, kv_total=100, generation_rate=123_456.0))
    checks = [{"name": "loops", "severity": "warning", "count": 12_345, "share": 0.03, "message": "y" * 300}]
    (folder.path / "verification.json").write_bytes(msgspec.json.encode(checks))
    facts: Facts = gather(RunWatch(folder.path, now=lambda: NOW + 700), 0)
    kinds = ("reasoning", "frame", "call", "frame", "content", "end", "after")
    answer = [Span(kind, f"<|{kind}|>" + "z" * 90) for kind in kinds]
    facts = msgspec.structs.replace(facts, samples=[Sample(names[0], 1, 0, 9, "stop", "<|user|>" + "w" * 200, answer)])
    (place / "report.html").write_bytes(page_of(facts))
    return place / "report.html"


def opened(page: Path, width: int) -> tuple[dict[str, Any], str]:
    """What was measured in the browser, and what its console said."""
    frame = page.with_name(f"frame-{width}.html")
    frame.write_text(MEASURE % width)
    assert BROWSER
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--allow-file-access-from-files",
    ]
    command += [f"--user-data-dir={page.parent / 'profile'}", "--window-size=1400,1000", "--enable-logging=stderr"]
    command += ["--virtual-time-budget=4000", "--dump-dom", frame.as_uri()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="o">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert found and found[1], ran.stderr[-2000:]
    return json.loads(unescape(found[1])), "\n".join(line for line in ran.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.parametrize("width", [1280, 380])
def test_nothing_is_cut_and_the_console_is_silent(page: Path, width: int) -> None:
    measured, console = opened(page, width)
    assert console == ""
    assert measured == {"width": width, "needed": width, "cut": [], "over": []}


def test_the_measure_sees_what_is_cut_and_what_is_said(page: Path, tmp_path: Path) -> None:
    bad = "<p style='white-space:nowrap'>" + "cut " * 100 + "</p><img src='http://127.0.0.1:9/x.png'></main>"
    (tmp_path / "report.html").write_text(page.read_text().replace("</main>", bad))
    measured, console = opened(tmp_path / "report.html", 380)
    assert measured["needed"] > 380 and any("cut cut" in text for text in measured["cut"])
    assert "127.0.0.1:9" in console  # its policy refuses it, and says so
