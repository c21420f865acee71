"""The page in a real browser: its script runs, nothing overflows, no request leaves.

Every request of the browser goes through a proxy that this test is: it serves the pages, and keeps what else was asked.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import sample

from limbeck.report.page import page

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--virtual-time-budget=4000",
]
OF_THE_BROWSER = re.compile(r"google|gstatic|gvt1|chromium|chrome", re.I)  # what it asks on its own account

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no chromium, chromium-browser or google-chrome is installed"),
]

# Opens each page at phone and desk width in a frame, uses it as a reader would, and writes down what it saw.
VISIT = """
<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><pre id="seen"></pre><script>
const names = NAMES, seen = {};
const visit = (name, width) => new Promise((done) => {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  frame.onload = () => {
    const page = frame.contentDocument, root = page.documentElement, window = frame.contentWindow;
    for (const fold of page.querySelectorAll("details")) fold.open = true;
    const visible = () => [...page.querySelectorAll(".disagreements li")].filter((row) => row.offsetParent).length;
    const before = visible(), choice = page.querySelector(".disagreements input[value=student]");
    if (choice) choice.click();
    const theme = window.getComputedStyle(page.body).backgroundColor;
    page.querySelector(".theme").click();
    const head = page.querySelector("table.sortable th.num button");
    if (head) head.click();
    seen[`${name} ${width}`] = {
      ready: root.hasAttribute("data-ready"), error: root.getAttribute("data-error"),
      overflow: root.scrollWidth - root.clientWidth, loaded: window.performance.getEntriesByType("resource").length,
      all: before, chosen: visible(), turned: theme !== window.getComputedStyle(page.body).backgroundColor,
      charts: [...page.querySelectorAll("figure svg")].filter((svg) => svg.getBoundingClientRect().width > 100).length,
      sorted: [...page.querySelectorAll("table.sortable tbody tr")].map((row) => row.cells[1].dataset.value),
    };
    frame.remove();
    done();
  };
  frame.src = name;
  document.body.append(frame);
});
(async () => {
  for (const name of names) for (const width of [360, 1200]) await visit(name, width);
  document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script>
"""


class Site:
    """Pages at http://page.test/, and a list of everything that was asked for."""

    def __init__(self, pages: dict[str, str]) -> None:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                body = pages.get(self.path.removeprefix("http://page.test/"))
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write((body or "").encode())

            def do_CONNECT(self) -> None:
                asked.append(self.path)
                self.send_error(502)

            def log_message(self, *_: object) -> None:
                pass

        self.predicted = asked
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def browse(pages: dict[str, str], profile: Path) -> tuple[dict[str, dict], list[str]]:
    site = Site({**pages, "visit": VISIT.replace("NAMES", json.dumps(list(pages)))})
    proxy = f"--proxy-server=127.0.0.1:{site.server.server_port}"
    command = [str(BROWSER), *FLAGS, proxy, f"--user-data-dir={profile}", "--dump-dom", "http://page.test/visit"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    finally:
        site.server.shutdown()
        site.server.server_close()
    found = re.search(r'<pre id="seen">(.+?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(html.unescape(found[1])), [url for url in site.predicted if not OF_THE_BROWSER.search(url)]


@pytest.fixture(scope="module")
def visited(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, dict], list[str]]:
    records = sample.every()
    wide = sample.distill(name="a-very-long-run-name-" * 8, labels=("a_label_without_any_space_" * 6, "b"))
    wide = wide.but(arms=[arm.but(title=f"{arm.title} by a_title_without_end_" + "x" * 90) for arm in wide.arms])
    pages = {f"{name.replace(' ', '-')}.html": page([record]) for name, record in records.items()}
    pages |= {
        "many.html": page(list(records.values())),
        "wide.html": page([wide]),
        "wide-many.html": page([wide, wide]),
    }
    return browse(pages, tmp_path_factory.mktemp("profile"))


def test_the_script_runs_on_every_page(visited) -> None:
    for name, seen in visited[0].items():
        assert seen["ready"], name
        assert seen["error"] is None, name
        assert seen["turned"], name


def test_no_page_scrolls_sideways(visited) -> None:
    assert {name: seen["overflow"] for name, seen in visited[0].items() if seen["overflow"] > 0} == {}
    assert len(visited[0]) == 2 * (len(sample.every()) + 3)


def test_no_request_leaves(visited) -> None:
    seen, asked = visited
    assert {entry["loaded"] for entry in seen.values()} == {0}
    assert {url.removeprefix("http://page.test/").removesuffix(".html") for url in asked} == {
        "visit",
        *(name.split(".html")[0] for name in seen),
    }


def test_charts_are_drawn_once_at_each_width(visited) -> None:
    for width in (360, 1200):
        # size and latency, difference, calibration, right and wrong, learning, loss, two terms
        assert visited[0][f"distill.html {width}"]["charts"] == 9


def test_the_filter_shows_only_what_was_chosen(visited) -> None:
    rows = sample.distill().disagreements
    seen = visited[0]["distill.html 1200"]
    assert seen["all"] == len(rows)
    assert seen["chosen"] == sum(row.label == row.student for row in rows)


def test_a_click_sorts_the_table(visited) -> None:
    values = [float(value) for value in visited[0]["many.html 1200"]["sorted"] if value]
    assert len(values) > 10
    assert values == sorted(values)
    blanks = [i for i, value in enumerate(visited[0]["many.html 1200"]["sorted"]) if not value]
    assert min(blanks) == len(values)
