// SPDX-License-Identifier: MIT
// What the pages share: the chart library, text of numbers, elements, and the theme's colours.
"use strict";

const swrCommon = (() => {
  // ---- The chart library: modules that ask for each other by name.
  const loaded = {};
  const need = (name) => {
    // vega-functions asks for the plural; the file is named in the singular.
    const file = name === "vega-selections" ? "vega-selection" : name;
    if (!(file in loaded)) {
      const module = { exports: {} };
      loaded[file] = module.exports;
      swrModules[file](module, module.exports, need);
      loaded[file] = module.exports;
    }
    return loaded[file];
  };
  Object.assign(need("vega-dataflow").transforms, need("vega-transforms"), need("vega-encode"),
                need("vega-view-transforms"));
  /// Draws a specification into a place; returns the view, whose promise is for the drawing.
  const drawChart = (place, spec, colours) => {
    const view = new (need("vega-view").View)(need("vega-parser").parse(spec, swrCharts.config(colours)),
                                              { renderer: "svg", container: place, hover: true });
    return { view, drawn: view.runAsync() };
  };

  // ---- Text of numbers.
  const digits = (value, count) => (value === 0 ? "0" : Number(value.toPrecision(count)).toLocaleString("en-US", { maximumSignificantDigits: count, useGrouping: true }));
  const whole = (value) => value.toLocaleString("en-US");
  const kTimes = [[1e6, "s"], [1e3, "ms"], [1, "\u00b5s"]];
  const timeUnit = (us) => kTimes.find(([size]) => us >= size) ?? kTimes[2];
  const time = (us) => { const [size, unit] = timeUnit(us); return `${digits(us / size, 4)} ${unit}`; };

  // ---- Elements.
  const h = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (name in element && typeof value !== "string") element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== ""));
    return element;
  };

  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    return { page: of("--page"), surface: of("--surface"), text: of("--text"), muted: of("--muted"),
             line: of("--line"), grid: of("--grid"), accent: of("--accent"), best: of("--best"),
             warn: of("--warn"), roof: of("--roof"), cyclic: of("--cyclic"), sawtooth: of("--sawtooth"),
             rightToLeft: of("--right-to-left"), cellLow: of("--cell-low"), cellHigh: of("--cell-high"),
             font: of("--font") };
  };

  return { drawChart, digits, whole, timeUnit, time, h, theme };
})();
