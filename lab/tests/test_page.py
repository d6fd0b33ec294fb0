# SPDX-License-Identifier: Apache-2.0
"""The report's page on a laptop's screen and on a phone's: no text cut off, none too small."""

import json
import re
import shutil
import subprocess
import tempfile
import unittest
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

from rubato_lab import charts, html_report, machine
from test_telling import attempts, demo_record, measured

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
LAPTOP, PHONE = 1280, 420
LIMIT_S = 120
# The smallest text of a drawing is 11.5 units high.
LEAST_TEXT_PX, TICK_UNITS = 10, 11.5
VOID = {"meta", "br", "rect", "line", "path", "circle"}


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


class Outline(HTMLParser):
    """For every table and drawing, the (tag, class) of what it stands in."""

    def __init__(self, page):
        super().__init__()
        self._open, self.homes, self.drawings = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag in ("table", "svg"):
            self.homes.append((tag, [at for at in self._open if at[0] not in ("html", "body")]))
        if tag == "svg":
            self.drawings.append(attributes)
        if tag not in VOID:
            self._open.append((tag, attributes.get("class", "")))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop()[0] == tag, f"</{tag}> closes something else"


def rules_of(style):
    """{selector: {property: value}} of what applies everywhere; the media queries are left out."""
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    everywhere = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", style)
    rules = {}
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", everywhere):
        for selector in selectors.split(","):
            rules.setdefault(selector.strip(), {}).update(
                {k.strip(): v.strip() for k, _, v in (d.partition(":") for d in body.split(";"))})
    return rules


class Written(unittest.TestCase):
    def setUp(self):
        self.outline = Outline(html_report.render(wide_record()))
        self.rules = rules_of(html_report.STYLE)

    def test_every_table_and_drawing_stands_in_a_box_that_scrolls(self):
        kinds = [tag for tag, _ in self.outline.homes]
        self.assertEqual((kinds.count("table"), kinds.count("svg")), (4, 3))
        for tag, homes in self.outline.homes:
            inner_tag, classes = homes[-1]
            self.assertTrue(inner_tag == "figure" or "scroll" in classes.split(), (tag, homes))
        for box in (".scroll", "figure"):
            self.assertEqual(self.rules[box]["overflow-x"], "auto")

    def test_drawings_keep_words_that_can_be_read(self):
        least = int(self.rules["figure svg"]["min-width"].removesuffix("px"))
        self.assertGreaterEqual(least * TICK_UNITS / charts.WIDTH, LEAST_TEXT_PX)
        for drawing in self.outline.drawings:
            self.assertEqual(drawing["width"], str(charts.WIDTH))

    def test_remarks_are_folded_and_the_widest_table_may_leave_the_column(self):
        self.assertEqual(self.rules["td.remark"]["white-space"], "normal")
        self.assertEqual(self.rules[".wide"]["max-width"], "calc(100vw - 40px)")
        self.assertEqual(sum("wide" in homes[-1][1].split() for _, homes in self.outline.homes), 1)


MEASURE = """
function measured(frame) {
  const page = frame.contentDocument, view = frame.contentWindow;
  const boxes = [...page.querySelectorAll('table, svg')].map(one => {
    const at = one.getBoundingClientRect();
    let box = one.parentElement;
    while (box !== page.body && !/auto|scroll/.test(view.getComputedStyle(box).overflowX))
      box = box.parentElement;
    const home = box.getBoundingClientRect();
    return {tag: one.tagName.toLowerCase(), width: at.width, scrolls: box !== page.body,
            hidden: Math.max(at.right - home.right, home.left - at.left),
            home_left: home.left, home_right: home.right};
  });
  return {inner: view.innerWidth, document: page.scrollingElement.scrollWidth, boxes: boxes};
}
onload = () => {
  const all = [...document.querySelectorAll('iframe')].map(measured);
  document.body.textContent = 'MEASURED' + JSON.stringify(all) + 'DONE';
};
"""


def frames(page, widths):
    """A page that shows this one in a frame of each width, and then what it measured instead."""
    shown = "".join(f'<iframe srcdoc="{escape(page)}" style="width:{width}px; height:900px; '
                    'border:0"></iframe>' for width in widths)
    return f"<!DOCTYPE html><meta charset=utf-8><body>{shown}<script>{MEASURE}</script>"


def browse(page, widths):
    """What a browser measured, a dictionary per width."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.html"
        path.write_text(frames(page, widths), encoding="utf-8")
        done = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
             "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", f"--user-data-dir={folder}/profile", "--window-size=1600,2000",
             "--dump-dom", path.as_uri()],
            capture_output=True, text=True, timeout=LIMIT_S, check=False)
    found = re.search(r"MEASURED(.*)DONE", unescape(done.stdout), re.DOTALL)
    assert found, f"{CHROMIUM} measured nothing: {done.stderr[-2000:]}"
    return dict(zip(widths, json.loads(found[1]), strict=True))


@unittest.skipUnless(CHROMIUM, "no chromium here")
class Shown(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.at = browse(html_report.render(wide_record()), (LAPTOP, PHONE))

    def test_the_page_never_scrolls_sideways_as_a_whole(self):
        for width, page in self.at.items():
            self.assertEqual(page["inner"], width)
            self.assertLessEqual(page["document"], page["inner"])

    def test_on_a_laptop_every_table_and_drawing_is_seen_whole(self):
        for box in self.at[LAPTOP]["boxes"]:
            self.assertLessEqual(box["hidden"], 1, box)

    def test_on_a_phone_what_is_wider_than_the_screen_scrolls_in_a_box_on_it(self):
        for box in self.at[PHONE]["boxes"]:
            self.assertTrue(box["scrolls"] or box["hidden"] <= 1, box)
            self.assertGreaterEqual(box["home_left"], 0, box)
            self.assertLessEqual(box["home_right"], PHONE, box)

    def test_text_in_drawings_is_large_enough_everywhere(self):
        for width, page in self.at.items():
            for box in page["boxes"]:
                if box["tag"] == "svg":
                    self.assertGreaterEqual(box["width"] * TICK_UNITS / charts.WIDTH,
                                            LEAST_TEXT_PX, width)


if __name__ == "__main__":
    unittest.main()
