// SPDX-License-Identifier: MIT
// The charts as declarative Vega specifications. Each function takes records of the page's data and
// the theme's colours and returns plain JSON; nothing here touches the document.
"use strict";

const swrCharts = (() => {
  const ORDERS = ["cyclic", "sawtooth", "right_to_left"];
  const SHAPES = ["circle", "triangle-up", "square"];
  const kLabel = 11;

  const config = (theme) => ({
    background: null,
    style: { "guide-label": { font: theme.font, fontSize: kLabel, fill: theme.muted },
             "guide-title": { font: theme.font, fontSize: kLabel, fontWeight: 500, fill: theme.muted } },
    axis: { domainColor: theme.line, tickColor: theme.line, gridColor: theme.grid, titlePadding: 6 },
    legend: { symbolSize: 60, labelLimit: 320, rowPadding: 3 },
    text: { font: theme.font, fontSize: kLabel, fill: theme.text },
  });

  const base = (description, width, height) => ({
    description, width, height, padding: 4, autosize: { type: "fit", contains: "padding" },
  });
  const axis = (scale, orient, title, more) =>
    ({ scale, orient, title, grid: true, labelOverlap: true, tickCount: 6, ...more });
  /// Two decades and more of positive values are read better on a logarithmic scale.
  const spread = (values) => {
    const positive = values.filter((value) => value > 0);
    return positive.length ? Math.max(...positive) / Math.min(...positive) : 1;
  };
  /// Leaves room for labels above the highest value.
  const headroom = (values) => (spread(values) > 20
    ? [Math.min(...values) * 0.8, Math.max(...values) * 1.7] : [0, Math.max(...values) * 1.2]);
  const orderScales = (theme) => [
    { name: "color", type: "ordinal", domain: ORDERS,
      range: [theme.cyclic, theme.sawtooth, theme.rightToLeft] },
    { name: "shape", type: "ordinal", domain: ORDERS, range: SHAPES },
  ];
  const orderLegend = (present) => ({
    fill: "color", shape: "shape", orient: "top", direction: "horizontal",
    values: ORDERS.filter((order) => present.has(order)),
  });
  const points = (data, x, y, theme, size) => ({
    type: "symbol", from: { data }, aria: false,
    encode: {
      update: {
        x: { scale: "x", field: x }, y: { scale: "y", field: y }, size: { value: size },
        shape: { scale: "shape", field: "order" }, fill: { scale: "color", field: "order" },
        fillOpacity: { value: 0.62 }, stroke: { value: theme.surface }, strokeWidth: { value: 0.5 },
        tooltip: { field: "tip" },
      },
      hover: { fillOpacity: { value: 1 }, stroke: { value: theme.text } },
    },
  });
  const ring = (data, x, y, theme) => ({
    type: "symbol", from: { data }, interactive: false, aria: false,
    encode: { update: {
      x: { scale: "x", field: x }, y: { scale: "y", field: y }, size: { value: 210 },
      fill: { value: "transparent" }, stroke: { value: theme.best }, strokeWidth: { value: 2.5 },
    } },
  });
  const note = (data, x, y, text, theme, more) => ({
    type: "text", from: { data }, interactive: false, aria: false,
    encode: { update: {
      x: { scale: "x", field: x }, y: { scale: "y", field: y }, text: { field: text },
      fill: { value: theme.muted }, ...more,
    } },
  });

  /// records: {order, excess_mb, time, tip, best}; `unit` of the times.
  const missesAndTime = (records, unit, theme, width) => ({
    ...base("Time against excess L2 misses of every variant, by order", width, 300),
    data: [{ name: "all", values: records },
           { name: "best", source: "all", transform: [{ type: "filter", expr: "datum.best" }] }],
    scales: [
      { name: "x", type: spread(records.map((r) => r.excess_mb)) > 50 ? "symlog" : "linear",
        domain: [0, Math.max(1, ...records.map((r) => r.excess_mb))], range: "width", nice: true },
      // A logarithmic axis of less than a decade has one tick.
      { name: "y", type: spread(records.map((r) => r.time)) > 10 ? "log" : "linear",
        domain: { data: "all", field: "time" }, range: "height", nice: true, zero: false },
      ...orderScales(theme)],
    axes: [axis("x", "bottom", "excess misses, MB fetched again", { format: "~r" }),
           axis("y", "left", `time, ${unit}`, { format: "~r" })],
    legends: [orderLegend(new Set(records.map((r) => r.order)))],
    marks: [points("all", "excess_mb", "time", theme, 46), ring("best", "excess_mb", "time", theme)],
  });

  /// records: {time, energy (millijoule), tip, best, front}; `unit` of the times.
  const timeAndEnergy = (records, unit, theme, width) => ({
    ...base("Energy against time of the variants whose energy was measured", width, 300),
    data: [{ name: "all", values: records },
           { name: "best", source: "all", transform: [{ type: "filter", expr: "datum.best" }] },
           { name: "front", source: "all", transform: [{ type: "filter", expr: "datum.front" },
             { type: "collect", sort: { field: "time" } }] }],
    scales: [
      { name: "x", type: "linear", domain: { data: "all", field: "time" }, range: "width", nice: true, zero: false },
      { name: "y", type: "linear", domain: { data: "all", field: "energy" }, range: "height", nice: true, zero: false }],
    axes: [axis("x", "bottom", `time, ${unit}`, { format: "~r" }),
           axis("y", "left", "energy of a launch, mJ", { format: "~r" })],
    marks: [
      { type: "line", from: { data: "front" }, interactive: false, aria: false, encode: { update: {
        x: { scale: "x", field: "time" }, y: { scale: "y", field: "energy" },
        interpolate: { value: "step-after" }, stroke: { value: theme.sawtooth }, strokeWidth: { value: 1.5 } } } },
      { type: "symbol", from: { data: "all" }, aria: false, encode: { update: {
        x: { scale: "x", field: "time" }, y: { scale: "y", field: "energy" }, size: { value: 60 },
        fill: [{ test: "datum.front", value: theme.sawtooth }, { value: theme.cyclic }],
        fillOpacity: { value: 0.7 }, tooltip: { field: "tip" } } } },
      ring("best", "time", "energy", theme)],
  });

  /// The same where nothing is fetched again, which leaves one number to show.
  const timeByOrder = (records, unit, theme, width) => ({
    ...base("Time of every variant, by order", width, 70 + 44 * new Set(records.map((r) => r.order)).size),
    data: [{ name: "all", values: records },
           { name: "best", source: "all", transform: [{ type: "filter", expr: "datum.best" }] }],
    scales: [
      { name: "x", type: spread(records.map((r) => r.time)) > 10 ? "log" : "linear",
        domain: { data: "all", field: "time" }, range: "width", nice: true, zero: false },
      { name: "y", type: "point", padding: 0.5, range: "height",
        domain: ORDERS.filter((order) => records.some((r) => r.order === order)) },
      ...orderScales(theme)],
    axes: [axis("x", "bottom", `time, ${unit}`, { format: "~r" }),
           { scale: "y", orient: "left", domain: false, ticks: false, labelPadding: 8 }],
    marks: [points("all", "time", "order", theme, 46), ring("best", "time", "order", theme)],
  });

  /// records: {tile, loss (percent), label, best}.
  const tiles = (records, theme, width) => ({
    ...base("How much slower the best variant of each tile is", width, 30 + 24 * records.length),
    data: [{ name: "tiles", values: records }],
    scales: [
      { name: "x", type: "linear", domain: { data: "tiles", field: "loss" }, range: "width",
        nice: true, zero: true },
      { name: "y", type: "band", domain: { data: "tiles", field: "tile" }, range: "height",
        padding: 0.25 }],
    axes: [axis("x", "bottom", "slower than the best tile, percent", { format: "~r" }),
           { scale: "y", orient: "left", domain: false, ticks: false, labelPadding: 6 }],
    marks: [
      { type: "rect", from: { data: "tiles" }, aria: false, encode: { update: {
        x: { scale: "x", value: 0 }, x2: { scale: "x", field: "loss" },
        y: { scale: "y", field: "tile" }, height: { scale: "y", band: 1 },
        fill: [{ test: "datum.best", value: theme.best }, { value: theme.cyclic }],
        fillOpacity: { value: 0.75 }, tooltip: { field: "label" }, cornerRadius: { value: 2 } } } },
      { type: "text", from: { data: "tiles" }, aria: false, encode: { update: {
        x: { scale: "x", field: "loss", offset: { signal: `datum.loss > domain('x')[1] * 0.7 ? -6 : 6` } },
        align: { signal: `datum.loss > domain('x')[1] * 0.7 ? 'right' : 'left'` },
        y: { scale: "y", field: "tile", band: 0.5 }, baseline: { value: "middle" },
        text: { field: "label" }, fill: { value: theme.text } } } }],
  });

  /// times and bests: {done, time, tip}; `total` variants planned. A run that goes on.
  const live = (times, bests, total, unit, theme, width) => ({
    ...base("Times as they came, and the fastest so far", width, 260),
    data: [{ name: "times", values: times }, { name: "bests", values: bests }],
    scales: [
      { name: "x", type: "linear", domain: [0, total], range: "width" },
      { name: "y", type: spread(times.map((r) => r.time)) > 10 ? "log" : "linear",
        domain: { data: "times", field: "time" }, range: "height", nice: true, zero: false }],
    axes: [axis("x", "bottom", "variants tried", { tickMinStep: 1, format: "d" }),
           axis("y", "left", `time, ${unit}`, { format: "~r" })],
    marks: [
      { type: "symbol", from: { data: "times" }, aria: false, encode: { update: {
        x: { scale: "x", field: "done" }, y: { scale: "y", field: "time" }, size: { value: 22 },
        fill: { value: theme.accent }, fillOpacity: { value: 0.55 }, tooltip: { field: "tip" } } } },
      { type: "line", from: { data: "bests" }, interactive: false, aria: false, encode: { update: {
        x: { scale: "x", field: "done" }, y: { scale: "y", field: "time" },
        interpolate: { value: "step-after" }, stroke: { value: theme.best },
        strokeWidth: { value: 2.5 } } } }],
  });

  /// records: {tried, time}.
  const progress = (records, unit, theme, width) => ({
    ...base("Fastest time found by the number of variants tried", width, 240),
    data: [{ name: "steps", values: records }],
    scales: [
      { name: "x", type: "linear", domain: { data: "steps", field: "tried" }, range: "width",
        zero: true },
      { name: "y", type: spread(records.map((r) => r.time)) > 10 ? "log" : "linear",
        // The first may have been the fastest: a flat line needs an axis around it.
        domain: records.every((r) => r.time === records[0].time)
          ? [records[0].time * 0.9, records[0].time * 1.1] : { data: "steps", field: "time" },
        range: "height", nice: true, zero: false }],
    axes: [axis("x", "bottom", "variants tried", { tickMinStep: 1, format: "d" }),
           axis("y", "left", `fastest so far, ${unit}`, { format: "~r" })],
    marks: [
      { type: "line", from: { data: "steps" }, aria: false, encode: { update: {
        x: { scale: "x", field: "tried" }, y: { scale: "y", field: "time" },
        interpolate: { value: "step-after" }, stroke: { value: theme.accent },
        strokeWidth: { value: 2 } } } },
      { type: "symbol", from: { data: "steps" }, aria: false, encode: { update: {
        x: { scale: "x", field: "tried" }, y: { scale: "y", field: "time" }, size: { value: 34 },
        fill: { value: theme.accent }, tooltip: { field: "tip" } } } }],
  });

  /// curve: {order, mib, ratio, tip}; marks: {mib, label}; floors: {ratio}.
  const missCurve = (curve, marks, floors, theme, width) => ({
    ...base("Modelled miss ratio by the size of L2, with the size of this chip", width, 300),
    data: [{ name: "curve", values: curve }, { name: "chip", values: marks },
           { name: "floors", values: floors }],
    scales: [
      { name: "x", type: "log", base: 2, domain: { data: "curve", field: "mib" }, range: "width" },
      { name: "y", type: spread(curve.map((p) => p.ratio)) > 20 ? "log" : "linear",
        domain: headroom([...curve, ...floors].map((p) => p.ratio)), range: "height" },
      ...orderScales(theme)],
    axes: [axis("x", "bottom", "size of an L2 in one piece, MiB", { format: "~r" }),
           axis("y", "left", "missed of all sectors demanded", { format: ".1%" })],
    legends: [{ stroke: "color", orient: "top", direction: "horizontal", symbolType: "stroke",
                values: ORDERS.filter((order) => curve.some((p) => p.order === order)) }],
    marks: [
      { type: "rule", from: { data: "floors" }, aria: false, encode: { update: {
        x: { value: 0 }, x2: { signal: "width" }, y: { scale: "y", field: "ratio" },
        stroke: { value: theme.muted }, strokeDash: { value: [2, 3] } } } },
      note("floors", "mib", "ratio", "label", theme, { dy: { value: -5 }, x: { value: 4 } }),
      { type: "rule", from: { data: "chip" }, aria: false, encode: { update: {
        x: { scale: "x", field: "mib" }, y: { value: 0 }, y2: { signal: "height" },
        stroke: { value: theme.warn }, strokeDash: { field: "dash" }, strokeWidth: { value: 1.5 } } } },
      { type: "text", from: { data: "chip" }, aria: false, encode: { update: {
        x: { scale: "x", field: "mib", offset: { signal: "datum.row ? -5 : 5" } },
        align: { signal: "datum.row ? 'right' : 'left'" }, y: { field: "row", mult: 14, offset: 11 },
        text: { field: "label" }, fill: { value: theme.warn } } } },
      { type: "group", from: { facet: { name: "one", data: "curve", groupby: "label" } }, aria: false,
        marks: [{ type: "line", from: { data: "one" }, aria: false, encode: { update: {
          x: { scale: "x", field: "mib" }, y: { scale: "y", field: "ratio" },
          interpolate: { value: "monotone" }, stroke: { scale: "color", field: "order" },
          strokeWidth: { value: 2.5 } } } },
        { type: "symbol", from: { data: "one" }, aria: false, encode: { update: {
          x: { scale: "x", field: "mib" }, y: { scale: "y", field: "ratio" }, size: { value: 26 },
          fill: { scale: "color", field: "order" }, tooltip: { field: "tip" } } } }] }],
  });

  /// roofs: {roof, intensity, tflop}; records: {order, intensity, tflop, tip, best};
  /// gaps: {intensity, tflop, intensity2, tflop2}; ideals: {intensity, tflop, tip}.
  const roofline = (roofs, records, ideals, gaps, theme, width) => ({
    ...base("Roofline: rate against FLOP per byte of memory", width, 320),
    data: [{ name: "roofs", values: roofs }, { name: "all", values: records },
           { name: "ideals", values: ideals }, { name: "gaps", values: gaps },
           { name: "best", source: "all", transform: [{ type: "filter", expr: "datum.best" }] },
           { name: "labels", source: "roofs", transform: [{ type: "filter", expr: "datum.label" }] }],
    scales: [
      { name: "x", type: "log", domain: { data: "roofs", field: "intensity" }, range: "width" },
      { name: "y", type: "log", range: "height", nice: true,
        domain: { fields: [{ data: "roofs", field: "tflop" }, { data: "all", field: "tflop" }] } },
      ...orderScales(theme)],
    axes: [axis("x", "bottom", "FLOP per byte of memory", { format: "~s" }),
           axis("y", "left", "TFLOP/s", { format: "~r" })],
    legends: records.length ? [orderLegend(new Set(records.map((r) => r.order)))] : [],
    marks: [
      { type: "group", from: { facet: { name: "one", data: "roofs", groupby: "roof" } }, aria: false,
        marks: [{ type: "line", from: { data: "one" }, aria: false, encode: { update: {
          x: { scale: "x", field: "intensity" }, y: { scale: "y", field: "tflop" },
          stroke: { value: theme.roof }, strokeWidth: { value: 2 } } } }] },
      note("labels", "intensity", "tflop", "label", theme,
           { align: { value: "right" }, dy: { value: -6 }, dx: { value: -4 } }),
      { type: "rule", from: { data: "gaps" }, aria: false, encode: { update: {
        x: { scale: "x", field: "intensity" }, x2: { scale: "x", field: "intensity2" },
        y: { scale: "y", field: "tflop" }, y2: { scale: "y", field: "tflop2" },
        stroke: { value: theme.best }, strokeDash: { value: [4, 3] } } } },
      points("all", "intensity", "tflop", theme, 40),
      { type: "symbol", from: { data: "ideals" }, aria: false, encode: { update: {
        x: { scale: "x", field: "intensity" }, y: { scale: "y", field: "tflop" },
        shape: { value: "diamond" }, size: { value: 90 }, fill: { value: theme.surface },
        stroke: { value: theme.best }, strokeWidth: { value: 2 }, tooltip: { field: "tip" } } } },
      ring("best", "intensity", "tflop", theme)],
  });

  /// cells: {length, dim, rate, tile, text, order, tip}.
  const regimes = (cells, theme, width) => ({
    ...base("Best variant and rate by length and head dimension", width,
            80 + 58 * new Set(cells.map((cell) => cell.dim)).size),
    data: [{ name: "cells", values: cells }],
    scales: [
      { name: "x", type: "band", range: "width", padding: 0.04,
        domain: { data: "cells", field: "length", sort: true } },
      { name: "y", type: "band", range: "height", padding: 0.06,
        domain: { data: "cells", field: "dim", sort: true } },
      { name: "color", type: "linear", domain: { data: "cells", field: "rate" }, zero: false,
        range: [theme.cellLow, theme.cellHigh] }],
    axes: [{ scale: "x", orient: "bottom", title: "S, length of K and V", domain: false, ticks: false },
           { scale: "y", orient: "left", title: "D, head_dim", domain: false, ticks: false }],
    legends: [{ fill: "color", title: "TFLOP/s", type: "gradient", orient: "top",
                direction: "horizontal", gradientLength: 160, gradientThickness: 8 }],
    marks: [
      { type: "rect", from: { data: "cells" }, aria: false, encode: { update: {
        x: { scale: "x", field: "length" }, width: { scale: "x", band: 1 },
        y: { scale: "y", field: "dim" }, height: { scale: "y", band: 1 },
        fill: { scale: "color", field: "rate" }, cornerRadius: { value: 4 },
        tooltip: { field: "tip" } } } },
      ...["tile", "text", "order"].map((line, row) => (
        { type: "text", from: { data: "cells" }, interactive: false, aria: false, encode: { update: {
          x: { scale: "x", field: "length", band: 0.5 }, y: { scale: "y", field: "dim", band: 0.5, offset: 14 * row - 14 },
          align: { value: "center" }, baseline: { value: "middle" }, text: { field: line },
          limit: { signal: "bandwidth('x') - 4" }, fontWeight: { value: row ? 400 : 600 }, fontSize: { value: row ? 10 : 11 },
          fill: { value: theme.text } } } }))],
  });

  return { config, missesAndTime, timeAndEnergy, timeByOrder, tiles, live, progress, missCurve, roofline, regimes };
})();
