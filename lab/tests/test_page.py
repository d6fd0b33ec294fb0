# SPDX-License-Identifier: Apache-2.0
"""Reports on a laptop's screen and on a phone's: no text cut off, none too small, figures drawn."""

import json
import re
import shutil
import subprocess
import tempfile
import unittest
from html import escape, unescape
from pathlib import Path

from rubato_lab import html_report, machine
from rubato_lab.program import RubatoError
from rubato_lab.report import library, runs
from samples import run_object
from test_telling import attempts, demo_record, measured

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
LAPTOP, PHONE = 1280, 390
LIMIT_S = 120
LEAST_TEXT_PX = 11


def wide_record():
    """As wide as a demo gets: every range has two ends, runs were late, one was given up."""
    by_name = {}
    slowest_of = {"fcfs": 4567.0, "ps": 12345.0, "synergy": 2987.0, "redis": 8765.0}
    for name, slowest in slowest_of.items():
        one = attempts(slowest, slowest / 7, slowest / 9, scan_us=4567.0)
        for i, run in enumerate(one.opened):
            run.report.achieved_rps = 29987.0 + 11 * i
            run.report.undisturbed["get"].share = 0.9123 - 0.0123 * i
            run.report.undisturbed["get"].latency_us["p999"] *= 1 + i
            run.report.types["get"].latency_us["p50"] = 32.1 + i
        by_name[name] = one
    late = measured(machine.Noise(0.87, 0.021, 7.0), p999_us=87654.0, valid=False)
    late.report.invalid_reason = ("12.34 % of the requests were never sent: no connection was free "
                                  "for them (the server is slower than the offered rate, or --flows"
                                  " is too small)")
    by_name["synergy"].discarded.append(late)
    by_name["redis"].opened = [late] * 3
    record = demo_record(by_name)
    record.settings["commit"] = "v0.1.0-123-g0123456789abcdef0123456789abcdef01234567-dirty"
    return record


MEASURE = """
function measured(frame) {
  const page = frame.contentDocument, view = frame.contentWindow;
  const boxes = [...page.querySelectorAll('table, figure, .plot, td')].map(one => {
    const at = one.getBoundingClientRect();
    return {tag: one.tagName.toLowerCase(), left: at.left, right: at.right, height: at.height};
  });
  const texts = [...page.querySelectorAll('figure div, td, th, p, small')].map(
    one => parseFloat(view.getComputedStyle(one).fontSize));
  return {inner: view.innerWidth, document: page.scrollingElement.scrollWidth, boxes, texts,
          drawn: Number(page.documentElement.dataset.drawn),
          figures: page.querySelectorAll('figure').length,
          canvases: page.querySelectorAll('canvas').length};
}
onload = () => {
  const all = [...document.querySelectorAll('iframe')].map(measured);
  document.body.textContent = 'MEASURED' + JSON.stringify(all) + 'DONE';
};
"""


def frames(pages, widths):
    """A page that shows these in frames of each width, and then what it measured instead."""
    shown = "".join(f'<iframe srcdoc="{escape(page)}" style="width:{width}px; height:900px; '
                    'border:0"></iframe>' for page in pages for width in widths)
    return f"<!DOCTYPE html><meta charset=utf-8><body>{shown}<script>{MEASURE}</script>"


def browse(pages, widths):
    """What a browser measured of {name: page}: [(name, width, what)]."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.html"
        path.write_text(frames(pages.values(), widths), encoding="utf-8")
        done = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
             "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", f"--user-data-dir={folder}/profile", "--window-size=1600,2000",
             "--dump-dom", path.as_uri()],
            capture_output=True, text=True, timeout=LIMIT_S, check=False)
    found = re.search(r"MEASURED(.*)DONE", unescape(done.stdout), re.DOTALL)
    assert found, f"{CHROMIUM} measured nothing: {done.stderr[-2000:]}"
    places = [(name, width) for name in pages for width in widths]
    return [(*place, what) for place, what in zip(places, json.loads(found[1]), strict=True)]


def sweep_page():
    """Two policies at two loads, as `rubato sim --compare` reports them, with intervals."""
    found = []
    for policy, load in (("ps", 0.5), ("ps", 0.7), ("synergy-with-a-long-name", 0.5),
                         ("synergy-with-a-long-name", 0.7)):
        run = run_object(policy=policy, load=load)
        run["confidence"] = {"latency_us": {"p99": 7.5, "p999": 31.0}, "types": [
            {"latency_us": {"p99": 7.5}} for _ in run["types"]]}
        found.append(run)
    return runs.page(found)


def live_page():
    return runs.page([run_object(live=True)])


def missing():
    """What keeps the pages from being seen here; empty = nothing."""
    if CHROMIUM is None:
        return "no chromium here"
    try:
        library.texts()
    except RubatoError as error:
        return str(error)
    return ""


@unittest.skipIf(missing(), missing())
class Shown(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.at = browse({"demo": html_report.page_of(wide_record()).html(),
                         "sweep": sweep_page().html(), "live": live_page().html()},
                        (LAPTOP, PHONE))

    def test_nothing_is_cut_off_and_no_page_scrolls_sideways(self):
        for kind, width, page in self.at:
            with self.subTest(kind, width=width):
                self.assertEqual(page["inner"], width)
                self.assertLessEqual(page["document"], page["inner"])
                for box in page["boxes"]:
                    self.assertGreaterEqual(box["left"], 0, box)
                    self.assertLessEqual(box["right"], width, box)

    def test_every_figure_is_drawn(self):
        for kind, width, page in self.at:
            with self.subTest(kind, width=width):
                self.assertGreater(page["figures"], 0)
                self.assertEqual(page["drawn"], page["figures"])
                self.assertGreaterEqual(page["canvases"], page["figures"])

    def test_text_is_large_enough_everywhere(self):
        for kind, width, page in self.at:
            with self.subTest(kind, width=width):
                self.assertGreaterEqual(min(page["texts"]), LEAST_TEXT_PX)


if __name__ == "__main__":
    unittest.main()
