// SPDX-License-Identifier: Apache-2.0
//
// The figures of a report: window.FIGURES, as chart.py writes them, drawn by dygraphs. A drag zooms,
// a double click or the button goes back.
(() => {
  const significant = (value) => Number(value.toPrecision(3)).toString();
  const latency = (us) => us < 0.9995 ? significant(us * 1e3) + " ns"
    : us < 999.5 ? significant(us) + " µs"
    : us < 999.5e3 ? significant(us / 1e3) + " ms" : significant(us / 1e6) + " s";
  const WRITE = {
    latency,
    share: (share) => significant(share * 100) + " %",
    ratio: significant,
    plain: (value) => Number(value.toPrecision(6)).toString(),
  };
  // After Okabe and Ito: they differ for everybody, on white and on black.
  const COLOURS = ["#d55e00", "#009e73", "#0072b2", "#cc79a7", "#8a7a00", "#56b4e9", "#888888",
                   "#e69f00"];
  const DASHES = [null, [7, 4], [2, 3], [9, 3, 2, 3]];

  // Powers of ten alone where there are several; else those of the library.
  function ticker(min, max, pixels, options, graph, values) {
    const ticks = Dygraph.numericTicks(min, max, pixels, options, graph, values);
    if (!options("logscale") || max / min < 1000) return ticks;
    return ticks.map((tick) => {
      const exponent = Math.log10(tick.v);
      const named = Math.abs(exponent - Math.round(exponent)) < 1e-6;
      return named ? tick : { ...tick, label: "" };
    });
  }

  function draw(figure, data) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = (of, width) => ({
      logscale: of.scale === "log", ticker, axisLabelWidth: width,
      axisLabelFormatter: (value) => WRITE[of.kind](value),
      valueFormatter: (value) => WRITE[of.kind](value),
    });
    const series = Object.fromEntries(data.names.map((name, i) =>
      [name, { strokePattern: DASHES[Math.floor(i / COLOURS.length + i) % DASHES.length] }]));
    const few = data.rows.length < 40;
    const graph = new Dygraph(figure.querySelector(".plot"), data.rows, {
      labels: [data.x.title, ...data.names], labelsDiv: figure.querySelector(".legend"),
      legend: "always", colors: data.names.map((_, i) => COLOURS[i % COLOURS.length]), series,
      customBars: data.bars, connectSeparatedPoints: true, stepPlot: data.steps,
      drawPoints: few, pointSize: 3, strokeWidth: 2, highlightCircleSize: 5,
      logscale: data.y.scale === "log", xlabel: data.x.title, ylabel: data.y.title,
      axes: { x: axis(data.x, 56), y: axis(data.y, 64) },
      gridLineColor: colour("--rule"), axisLineColor: colour("--soft"), axisLabelFontSize: 12,
      xLabelHeight: 18, yLabelWidth: 18, fillAlpha: 0.2, rightGap: 16,
      // The library pads in values, not in pixels: on a logarithmic axis that reaches below zero.
      xRangePad: data.x.scale === "log" ? 0 : 6, yRangePad: 6, digitsAfterDecimal: 6,
    });
    figure.querySelector("button").addEventListener("click", () => graph.resetZoom());
    return graph;
  }

  const graphs = [...document.querySelectorAll("figure[data-figure]")].map((figure) =>
    draw(figure, window.FIGURES[Number(figure.dataset.figure)]));
  window.addEventListener("beforeprint", () => graphs.forEach((graph) => graph.resize()));
  document.documentElement.dataset.drawn = String(graphs.length);
})();
