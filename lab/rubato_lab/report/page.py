# SPDX-License-Identifier: Apache-2.0
"""The page of a report: one HTML file that needs no network, from parts that say what they hold.
One owner at a time."""

import json
from html import escape
from pathlib import Path

from rubato_lab.report import library

SCRIPT = Path(__file__).with_name("report.js")
STYLE = Path(__file__).with_name("report.css")


class Page:
    """A title, a sentence, and what is added to it, in that order."""

    def __init__(self, title, intro=""):
        self.title = title
        self.figures = []
        self.parts = [f"<h1>{escape(title)}</h1>"]
        if intro:
            self.parts.append(f'<p class="soft">{escape(intro)}</p>')

    def heading(self, words):
        self.parts.append(f"<h2>{escape(words)}</h2>")

    def words(self, text, kind=""):
        self.parts.append(f'<p class="{kind}">{escape(text)}</p>')

    def markup(self, html):
        """What is HTML already."""
        self.parts.append(html)

    def commands(self, lines):
        self.parts.append(f"<pre>{escape(chr(10).join(lines))}</pre>")

    def chart(self, chart):
        """Nothing for a chart without points."""
        if chart.is_empty:
            return
        note = f"<small>{escape(chart.note)}</small>" if chart.note else ""
        self.parts.append(
            f'<figure data-figure="{len(self.figures)}"><figcaption>{escape(chart.title)}{note}'
            '</figcaption><div class="legend" aria-live="polite"></div>'
            f'<div class="plot" role="img" aria-label="{escape(chart.title)}"></div>'
            '<button type="button">Show all</button></figure>')
        self.figures.append(chart.to_object())

    def table(self, heads, rows):
        """`rows` hold texts, or (text, small print below it). The first column names the row. On
        narrow screens each row becomes a block of its own."""
        heads = [escape(head) for head in heads]
        lines = ["".join(f"<th>{head}</th>" for head in heads)]
        for row in rows:
            cells = []
            for head, cell in zip(heads, row):
                text, small = cell if isinstance(cell, tuple) else (cell, "")
                small = f"<small>{escape(small)}</small>" if small else ""
                cells.append(f'<td data-head="{head}"><span>{escape(text)}{small}</span></td>')
            lines.append("".join(cells))
        body = "".join(f"<tr>{line}</tr>" for line in lines[1:])
        self.parts.append(f'<table class="figures"><thead><tr>{lines[0]}</tr></thead>'
                          f"<tbody>{body}</tbody></table>")

    def facts(self, pairs):
        """A table of names and values."""
        body = "".join(f"<tr><th>{escape(str(name))}</th><td>{escape(str(value))}</td></tr>"
                       for name, value in pairs)
        self.parts.append(f'<table class="facts"><tbody>{body}</tbody></table>')

    def body(self):
        """What it says, without what draws its figures."""
        return "\n".join(self.parts)

    def html(self):
        """The whole page. Raises RubatoError where the library is missing."""
        script, style = library.texts()
        # JSON in a script: no text in it may end the element.
        data = json.dumps(self.figures, separators=(",", ":")).replace("<", "\\u003c")
        return "\n".join([
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Rubato: {escape(self.title)}</title>",
            f"<style>{style}\n{STYLE.read_text(encoding='utf-8')}</style></head><body>",
            self.body(), "<footer>Drag in a figure to zoom, double-click to go back.</footer>",
            f"<script>{script}</script><script>window.FIGURES={data};</script>",
            f"<script>{SCRIPT.read_text(encoding='utf-8')}</script></body></html>\n"])
