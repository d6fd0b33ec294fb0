# SPDX-License-Identifier: Apache-2.0
"""How the lab's figures look in matplotlib: the colours and dashes of reports, and SVG that follows
the theme of who reads it. The same figure is the same bytes. Drawing is for one thread at a time:
matplotlib's settings are the process's."""

import contextlib
import io

from rubato_lab.extras import need

# Okabe and Ito's, which everybody can tell apart, and lines differ by dash too.
COLOURS = ("#d55e00", "#009e73", "#0072b2", "#cc79a7", "#8a7a00", "#56b4e9", "#888888", "#e69f00")
DASHES = ("-", "--", ":", "-.")
INK, SOFT, GRID, PAPER = "#1d2127", "#5b6470", "#e4e7eb", "#ffffff"
# What a dark page has instead.
DARK = {INK: "#e8eaed", SOFT: "#a3abb5", GRID: "#2b3036", PAPER: "#14171a", "#0072b2": "#3d9be0"}
FONT = "text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif !important; }"
SETTINGS = {
    "svg.fonttype": "none", "svg.hashsalt": "rubato", "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"], "font.size": 9, "text.color": INK,
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT, "axes.grid": True, "axes.axisbelow": True,
    "axes.titlelocation": "left", "axes.titlesize": 9, "axes.spines.top": False,
    "axes.spines.right": False, "grid.color": GRID,
    "xtick.color": SOFT, "ytick.color": SOFT, "xtick.minor.size": 0, "ytick.minor.size": 0,
    "xtick.labelsize": 8, "ytick.labelsize": 8, "lines.linewidth": 2, "lines.markersize": 4,
    "legend.frameon": False, "legend.borderpad": 0, "legend.borderaxespad": 0.2,
    "legend.handlelength": 2.6, "legend.columnspacing": 1.6}
MARGIN, TITLE, LINE = 16, 26, 18


@contextlib.contextmanager
def applied():
    """For the time of drawing, and a decorator. Raises RubatoError without matplotlib."""
    with need("matplotlib").rc_context(SETTINGS):
        yield


def look(i):
    """Of the i-th line of a figure."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


def sheet(width, height, title, lines=()):
    """matplotlib's Figure of so many pixels with its title and the lines below; axes go beneath."""
    figure = need("matplotlib.figure").Figure((width / 96, height / 96), label=title)
    figure.text(MARGIN / width, 1 - TITLE / height, title, size=12, weight="bold")
    for i, words in enumerate(lines, 1):
        figure.text(MARGIN / width, 1 - (TITLE + LINE * i) / height, words, color=SOFT)
    head = (TITLE + LINE * len(lines) + LINE / 2) / height
    figure.set_layout_engine("constrained", rect=(0, 0, 1, 1 - head), w_pad=0.1, h_pad=0.08)
    return figure


def legend(figure, ax, line, ncols):
    """Of what `ax` draws, at the line `line` of the heading of its sheet, which is left empty."""
    width, height = figure.get_size_inches() * 96
    figure.legend(*ax.get_legend_handles_labels(), ncols=ncols, loc="upper left",
                  bbox_to_anchor=(MARGIN / width, 1 - (TITLE + LINE * (line - 0.5)) / height))


def formatter(words):
    """Ticks say words(value)."""
    return need("matplotlib.ticker").FuncFormatter(lambda value, _: words(value))


def logarithmic(ax, name, words, few=100):
    """The ticks of "x" or "y" say words(value): powers of ten, and 1, 2 and 5 of each within a
    factor of `few`."""
    ticker = need("matplotlib.ticker")
    ax.set(**{f"{name}scale": "log"})
    low, high = getattr(ax, f"get_{name}lim")()
    axis = getattr(ax, f"{name}axis")
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < few * low else (1,)))
    axis.set_major_formatter(formatter(words))
    axis.set_minor_formatter(ticker.NullFormatter())


def svg(figure):
    """The text of a sheet."""
    file = io.StringIO()
    with applied():
        figure.savefig(file, format="svg", metadata={
            "Title": figure.get_label(), "Date": None, "Creator": None})
    dark = " ".join(f'[style*="{part}: {light}"] {{ {part}: {dark} !important; }}'
                    for light, dark in DARK.items() for part in ("fill", "stroke"))
    theme = f"\n{FONT}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n</style>"
    return file.getvalue().replace("</style>", theme, 1).replace(" \n", "\n")
