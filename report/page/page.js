// SPDX-License-Identifier: MIT
// Builds the page from its data. Text of the data reaches the document as text nodes only.
"use strict";

(() => {
  const root = document.documentElement;
  root.dataset.errors = "0";
  const report = (message) => {
    root.dataset.errors = String(Number(root.dataset.errors) + 1);
    const line = document.createElement("p");
    line.className = "notice";
    line.setAttribute("role", "alert");
    line.textContent = `Part of this page could not be drawn: ${message}`;
    document.getElementById("content").prepend(line);
  };
  addEventListener("error", (event) => report(event.message));
  addEventListener("unhandledrejection", (event) => report(event.reason));

  const { digits, whole, timeUnit, time, h, theme } = swrCommon;
  const kMissing = "\u2013";
  // What is smaller is noise of sums, not news.
  const kLeast = 0.01;
  const rounded = (value, count) => (value !== 0 && Math.abs(value) < kLeast ? `under ${kLeast}` : digits(value, count));
  const megabytes = (sectors) => rounded(sectors * 32 / 1e6, 4);
  const counted = (value) => (value < 1e6 ? whole(value) : value < 1e9 ? `${digits(value / 1e6, 4)} M` : `${digits(value / 1e9, 4)} G`);
  const percent = (share) => `${rounded(share * 100, 3)} %`;
  const badge = (field) => h("span", { class: `badge ${field.provenance}` },
                             field.provenance + (field.l2_state ? `, ${field.l2_state} L2` : "") +
                             (field.overlay ? `, templates replaced (${field.overlay})` : ""));

  // columns: {title, about, get(record), text(value), kind: "number" | "text", wrap}
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const shownOf = (column, record) => {
    const value = column.get(record);
    return value === null || value === undefined ? kMissing
      : value instanceof Node ? value : column.text ? column.text(value) : String(value);
  };
  const cell = (column, record) => {
    const value = column.get(record);
    const shown = shownOf(column, record);
    const attributes = { class: (column.kind ?? "text") + (column.wrap ? " wrap" : ""), "data-title": column.title };
    if (typeof value === "number") attributes["data-value"] = String(value);
    return h("td", attributes, shown);
  };
  // Tables with `cards` are lists of cards on a phone.
  const table = ({ caption, name, columns, records, limit = 25, isBest = () => false, cards = false }) => {
    const isPhone = matchMedia("(max-width: 600px)").matches;
    const shown = cards && isPhone ? Math.min(limit, 5) : limit;  // A card has a dozen lines.
    let sorted = records;
    let all = records.length <= shown * 1.3;
    const body = h("tbody");
    const fill = () => body.replaceChildren(...sorted.slice(0, all ? undefined : shown).map((record) =>
      h("tr", isBest(record) ? { class: "best" } : {}, ...columns.map((column) => cell(column, record)))));
    const heads = columns.map((column) => {
      const head = h("th", { scope: "col", class: column.kind ?? "text" });
      const button = h("button", column.about ? { type: "button", title: column.about } : { type: "button" }, column.title);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = column.sort ?? column.get;
        // Unknown values stay last whichever way the others go.
        sorted = [...records].sort((a, b) => {
          const [x, y] = [key(a) ?? null, key(b) ?? null];
          return (up || x === null || y === null ? 1 : -1) * compare(x, y);
        });
        fill();
      });
      head.append(button);
      return head;
    });
    fill();
    const box = h("div", {}, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      h("table", { "data-table": name, class: cards ? "cards" : "" }, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...heads)), body)));
    if (!all) {
      const more = h("button", { type: "button", class: "more" }, `Show all ${whole(records.length)} rows`);
      more.addEventListener("click", () => { all = true; fill(); more.remove(); });
      box.append(more);
    }
    return box;
  };

  // ---- Charts: drawn when they come into view, and anew when width or colours change.
  const charts = [];
  const draw = (chart) => {
    const width = Math.floor(chart.place.clientWidth);
    if (width === 0) return;
    const colours = theme();
    chart.view?.finalize();
    chart.drawnWidth = width;
    const spec = chart.spec(colours, width);
    const { view, drawn } = swrCommon.drawChart(chart.place, spec, colours);
    chart.view = view;
    drawn.then(() => { chart.place.dataset.drawn = "true"; }).catch(report);
  };
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const chart = charts.find((one) => one.place === entry.target);
      if (entry.isIntersecting && !chart.view) draw(chart);
    }
  }, { rootMargin: "300px" });
  const redraw = (which) => charts.filter((chart) => chart.view && which(chart)).forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw(() => true));
  let resizing = 0;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => redraw((chart) => chart.place.clientWidth !== chart.drawnWidth), 150);
  });
  addEventListener("beforeprint", () => charts.filter((chart) => !chart.view).forEach(draw));
  const figure = (name, title, text, spec, isWide = false) => {
    const place = h("div", { class: "chart", "data-chart": name });
    charts.push({ place, spec });
    watcher.observe(place);
    return h("figure", { class: isWide ? "card wide" : "card" }, h("h3", {}, title), place, h("figcaption", {}, text));
  };

  // ---- The data.
  const data = JSON.parse(document.getElementById("data").textContent);
  const records = (field) => field.rows.map((row, rank) => {
    const record = Object.fromEntries(data.columns.map((name, index) => [name, row[index]]));
    record.rank = rank + 1;
    record.best = rank === 0 && record.state === "ok";
    return record;
  });
  const device = (field) => data.devices[field.device];
  const bestRow = (field) => {
    const record = field.answers ? records({ rows: [field.rows[0]] })[0] : null;
    return record;
  };
  const bestTime = (record) => record.finals_us ?? record.time_us;
  // Of kernels whose spec says no operations it is not known.
  const rate = (field) => field.roofline?.tflop_per_s ?? (bestRow(field)?.tflop_per_s || null);
  const tip = (record) => `${record.label}\n${time(record.time_us)}, ${digits(record.tflop_per_s, 4)} TFLOP/s` +
    (record.excess_miss_sectors === null ? "" : `\n${megabytes(record.excess_miss_sectors)} MB fetched again`);

  const rooflineSpec = (chip, points, ideals, gaps) => (colours, width) => {
    const peaks = [["mma.sync", chip.peak_tflop_per_s], ["wgmma", chip.hopper_peak_tflop_per_s]]
      .filter(([, peak]) => peak !== null);
    const ridge = Math.max(...peaks.map(([, peak]) => peak)) * 1e3 / chip.dram_gb_per_s;
    const all = [...points, ...ideals].map((point) => point.intensity);
    const low = Math.min(ridge / 8, ...all.map((value) => value / 1.5));
    const high = Math.max(ridge * 8, ...all.map((value) => value * 1.5));
    const roofs = peaks.flatMap(([name, peak]) => [
      { roof: name, intensity: low, tflop: low * chip.dram_gb_per_s / 1e3 },
      { roof: name, intensity: peak * 1e3 / chip.dram_gb_per_s, tflop: peak },
      { roof: name, intensity: high, tflop: peak, label: `${name}: ${digits(peak, 3)} TFLOP/s` }]);
    return swrCharts.roofline(roofs, points, ideals, gaps, colours, width);
  };
  const roofAt = (chip, family, intensity) =>
    Math.min(family === "hopper" ? chip.hopper_peak_tflop_per_s : chip.peak_tflop_per_s,
             intensity * chip.dram_gb_per_s / 1e3);

  // ---- One shape.
  const shapeCharts = (field) => {
    const all = records(field).filter((record) => record.state === "ok");
    const chip = device(field);
    const [size, unit] = timeUnit(all[0].time_us);
    const mark = field.provenance === "predicted" ? "Predicted: " : "Measured: ";
    const figures = [];
    const counted = all.filter((record) => record.excess_miss_sectors !== null)
      .map((record) => ({ order: record.order, excess_mb: record.excess_miss_sectors * 32 / 1e6,
                          time: record.time_us / size, tip: tip(record), best: record.best }));
    if (counted.length && counted.every((record) => record.excess_mb === 0)) {
      figures.push(figure("misses", "Time by order",
        `${mark}each point is a variant; the ring marks the best. None of them fetches anything again: all that CTAs share stays in the L2.`,
        (colours, width) => swrCharts.timeByOrder(counted, unit, colours, width)));
    } else if (counted.length) {
      figures.push(figure("misses", "Time against L2 misses, by order",
        `${mark}each point is a variant; the ring marks the best.${field.provenance === "measured" ? " Times of the screening." : ""}`,
        (colours, width) => swrCharts.missesAndTime(counted, unit, colours, width)));
    }
    if (field.energy_front) {
      const front = new Set(field.energy_front);
      const energies = all.filter((record) => record.energy_mj)
        .map((record) => ({ time: record.time_us / size, energy: record.energy_mj, best: record.best, front: front.has(record.rank),
                            tip: `${tip(record)}\n${digits(record.energy_mj, 4)} mJ, ${digits(record.power_w, 3)} W` }));
      figures.push(figure("energy", "Time and energy",
        `${mark}${whole(energies.length)} variants whose energy was measured, ${whole(front.size)} of them beaten by none in both (orange); ` +
        "the ring marks the best. What an idle GPU draws is in the energy.",
        (colours, width) => swrCharts.timeAndEnergy(energies, unit, colours, width)));
    }
    const roofed = all.filter((record) => record.dram_bytes)
      .map((record) => ({ order: record.order, intensity: field.flop / record.dram_bytes,
                          tflop: record.tflop_per_s, tip: tip(record), best: record.best }));
    if (field.roofline) {
      const ideal = { intensity: field.roofline.algorithmic_intensity, tflop: all[0].tflop_per_s,
                      tip: "the best with compulsory bytes alone" };
      const best = roofed.find((record) => record.best);
      const gaps = [{ intensity: (best ?? ideal).intensity, tflop: ideal.tflop, intensity2: (best ?? ideal).intensity,
                      tflop2: roofAt(chip, all[0].family, (best ?? ideal).intensity) }];
      if (best) gaps.push({ intensity: best.intensity, tflop: best.tflop, intensity2: ideal.intensity, tflop2: best.tflop });
      const gapText = `vertical gap ${digits(field.roofline.vertical_gap, 3)} times, horizontal gap ` +
        (field.roofline.horizontal_gap === null ? "unknown" : field.roofline.horizontal_gap < 1.05 ? "none"
          : `${digits(field.roofline.horizontal_gap, 3)} times`);
      figures.push(figure("roofline", "Roofline",
        `${mark}${gapText}; the diamond is the best with compulsory bytes alone. Roofs: profile ${chip.profile}, ` +
        `${whole(Math.round(chip.dram_gb_per_s))} GB/s achievable.`, rooflineSpec(chip, roofed, [ideal], gaps)));
    }
    const tiles = field.tiles.slice(0, 12).map((tile, rank) => ({
      tile: tile.tile, loss: tile.loss * 100, best: rank === 0,
      label: rank === 0 ? time(tile.time_us) : `+${percent(tile.loss)}` }));
    const second = field.tiles[1];
    if (second) {
      figures.push(figure("tiles", "Tile sensitivity",
        `${mark}best variant of each tile (rows of Q x rows of K x warps). ` +
        `Best ${field.tiles[0].tile}, runner-up ${second.tile}, which loses ${percent(second.loss)}.`,
        (colours, width) => swrCharts.tiles(tiles, colours, width)));
    }
    if (field.curves.length) {
      const mib = 1024 * 1024;
      const curve = field.curves.flatMap((one) => one.points.map(([bytes, ratio]) => (
        { label: one.label, order: one.order, mib: bytes / mib, ratio,
          tip: `${one.order}, ${digits(bytes / mib, 3)} MiB: ${percent(ratio)}` })));
      const chipMarks = [
        { mib: chip.device.l2_bytes / mib, row: 0, dash: [1, 0], label: `L2 ${digits(chip.device.l2_bytes / mib, 3)} MiB` },
        { mib: chip.l2_effective_bytes / mib, row: 1, dash: [4, 3], label: `effective ${digits(chip.l2_effective_bytes / mib, 3)} MiB` }];
      const floors = [{ mib: curve[0].mib, ratio: field.curves[0].compulsory_ratio, label: "compulsory" }];
      figures.push(figure("curve", "Miss ratio by size of L2",
        `Predicted by the model (LRU, one piece, no waiting) for ${field.curves.map((one) => one.label).join(" and ")}.`,
        (colours, width) => swrCharts.missCurve(curve, chipMarks, floors, colours, width)));
    }
    const steps = field.progress.map(([tried, us]) => ({ tried, time: us / size, tip: `${whole(tried)} tried: ${time(us)}` }));
    figures.push(figure("progress", "Search progress", `${mark}${whole(field.tried)} variants tried, ${whole(field.succeeded)} succeeded.`,
      (colours, width) => swrCharts.progress(steps, unit, colours, width)));
    return h("div", { class: "charts" }, ...figures);
  };

  const answers = (field) => {
    const list = h("dl", { class: "answers" });
    const add = (question, sentences, lead) => {
      const shown = [sentences].flat().filter((sentence) => sentence);
      if (shown.length) {
        list.append(h("dt", {}, question),
                    h("dd", {}, ...shown.map((sentence) => h("p", lead ? { class: "lead" } : {}, sentence))));
      }
    };
    const text = field.answers;
    add("Best variant", text.best, true);
    add("By how much", text.margin);
    add("Significant?", text.significance);
    add("By other objectives", field.winners_by);
    add("What limits it", text.limits);
    add("Avoidable misses", [text.avoidable, text.order]);
    add("What to try next", text.next);
    add("Bank conflicts and coalescing", field.accesses ? field.accesses.next : `Not counted: ${field.accesses_unknown}.`);
    return list;
  };

  // What the counters say of each kind of access of the best variant.
  const accessTable = (field) => {
    const shared = { unit: "conflicts per wavefront", best: "0", most: 1 };
    const global = { unit: "bytes used per sector", best: "32", most: 32 };
    const kinds = [
      ...field.accesses.shared.map((one) => ({ ...shared, memory: "shared", kind: one.kind, covers: one.covers, value: one.conflicts_per_wavefront,
        detail: `${whole(one.conflicts)} of ${whole(one.wavefronts)} wavefronts` })),
      ...field.accesses.global.map((one) => ({ ...global, memory: "global", kind: one.kind, covers: one.covers, value: one.bytes_per_sector,
        detail: `${whole(one.sectors)} sectors, ${digits(one.sectors_per_request, 3)} per request` }))];
    const notes = [field.accesses.missing, `Not covered: ${field.accesses.not_covered}.`,
      field.accesses.tma_load_sectors ? `The copy engine read ${whole(field.accesses.tma_load_sectors)} sectors.` : ""].filter((note) => note);
    return h("div", {}, table({
      caption: "Memory accesses of the best, measured by hardware counter", name: "accesses", records: kinds,
      columns: [{ title: "memory", get: (k) => k.memory }, { title: "kind", get: (k) => k.kind },
        { title: "measure", get: (k) => k.unit }, { title: "value", kind: "number", get: (k) => k.value, text: (v) => digits(v, 3) },
        { title: "bar", sort: (k) => k.value / k.most, get: (k) => h("meter", { min: 0, max: k.most, value: Math.min(k.value, k.most), "aria-label": k.unit }) },
        { title: "best", get: (k) => k.best }, { title: "counted", get: (k) => k.detail }, { title: "covers", get: (k) => k.covers }] }),
      ...notes.map((note) => h("p", { class: "muted" }, note)));
  };

  // A metric's name ends in its unit; a title that names another unit asks for it.
  const metricText = ({ key, title }) => key.endsWith("_us") ? time
    : title.endsWith("KiB") ? (value) => digits(value / 1024, 4)
    : (value) => (Number.isInteger(value) ? counted(value) : key === "relative_error" ? digits(value, 3) : rounded(value, 4));
  const variantColumns = (field) => [
    { title: "rank", kind: "number", get: (r) => r.rank },
    { title: "variant", get: (r) => r.label, wrap: true },
    { title: "time", kind: "number", get: (r) => r.time_us, text: time },
    { title: "in finals", kind: "number", get: (r) => r.finals_us, text: time },
    { title: "ratio", kind: "number", get: (r) => r.ratio, text: (v) => v.toFixed(4) },
    { title: "95 % interval", kind: "number", sort: (r) => r.ratio_low,
      get: (r) => (r.ratio === null ? null : `${r.ratio_low.toFixed(4)} \u2013 ${r.ratio_high.toFixed(4)}`) },
    { title: "tied", get: (r) => (r.tied === null ? null : r.tied ? "tied" : "slower") },
    ...data.metrics.filter((metric) => metric.key !== "time_us" && (field.energy_front || !metric.of_energy)).map((metric) => (
      { folds: true, title: metric.title, about: metric.meaning, kind: "number", get: (r) => r[metric.key] ?? null, text: metricText(metric) })),
    ...(field.accesses ? [
      { title: "conflicts/wavefront", kind: "number", get: (r) => r.conflicts_per_wavefront, text: (v) => digits(v, 3) },
      { title: "bytes/sector", kind: "number", get: (r) => r.bytes_per_sector, text: (v) => digits(v, 3) }] : []),
    { folds: true, title: "provenance", get: () => field.provenance },
  ];
  // Predictions have no finals, and counters may be missing: such columns would be empty. What is the same in all
  // rows is said once, beneath, so that the others fit.
  const variantTable = (field, all) => {
    const known = variantColumns(field).filter((column) => all.some((record) => column.get(record) !== null));
    const isSame = (column) => column.folds && all.length > 1 &&
      all.every((record) => column.get(record) === column.get(all[0]));
    const same = known.filter(isSame).map((column) => `${column.title} ${shownOf(column, all[0])}`).join(", ");
    return [table({ caption: `Variants, ${field.provenance}`, name: "variants", cards: true, records: all,
                    columns: known.filter((column) => !isSame(column)), isBest: (record) => record.best }),
            ...(same ? [h("p", { class: "muted" }, `In all rows: ${same}.`)] : [])];
  };
  const failures = (all) => {
    const failed = all.filter((record) => record.state !== "ok");
    return failed.length === 0 ? null : table({
      caption: `Variants that failed (${whole(failed.length)})`, name: "failures", limit: 10, records: failed, cards: true,
      columns: [{ title: "variant", get: (r) => r.label }, { title: "state", get: (r) => r.state },
                { title: "why", get: (r) => r.detail, wrap: true }] });
  };
  const shapeBody = (field) => {
    const all = records(field);
    const body = h("div", { class: "body" });
    if (!field.answers) {
      body.append(h("p", { class: "notice" }, "No variant succeeded."));
    } else {
      const good = all.filter((record) => record.state === "ok");
      body.append(answers(field), ...(field.accesses ? [accessTable(field)] : []), shapeCharts(field),
                  ...variantTable(field, good));
      body.append(h("p", { class: "muted" }, `Key of the best: ${all[0].key}`));
    }
    const failed = failures(all);
    if (failed) body.append(failed);
    body.append(h("p", { class: "muted" }, `${device(field).text}; runs ${field.runs.join(", ")}; ${whole(field.results)} results stored.`));
    return body;
  };
  const shape = (field, index) => {
    const best = bestRow(field);
    const details = h("details", { class: "shape", id: `shape-${index}` }, h("summary", {},
      h("span", { class: "name" }, field.title), badge(field),
      h("span", { class: "muted" }, device(field).device.name),
      h("span", { class: "time" }, best ? time(bestTime(best)) + (rate(field) === null ? "" : `, ${digits(rate(field), 4)} TFLOP/s`) +
                                          (field.prediction_error ? `, uncertain by ${digits(100 * field.prediction_error, 2)} %` : "") : "no success")));
    let built = false;
    details.addEventListener("toggle", () => {
      if (details.open && !built) {
        built = true;
        details.append(shapeBody(field));
      }
    });
    return details;
  };

  // ---- What the order does: the pair of variants that differ in it alone and has the fastest member.
  // Text of the model and of counters may disagree about which order wins, so both are looked at.
  const orderEffects = new Map();
  const findOrderEffect = (field) => {
    const pairs = new Map();
    for (const record of records(field)) {
      if (record.state !== "ok") continue;
      const shared = record.key.replace(/(^|,)(k_)?order=[a-z_]+/, "");
      const pair = pairs.get(shared) ?? {};
      pair[record.order] ??= record;
      pairs.set(shared, pair);
    }
    let best = null;
    for (const { cyclic, sawtooth } of pairs.values()) {
      if (!cyclic || !sawtooth) continue;
      const fastest = Math.min(cyclic.time_us, sawtooth.time_us);
      if (best === null || fastest < best.fastest) best = { fastest, cyclic, sawtooth };
    }
    if (best === null) return null;
    const misses = (record) => record.excess_miss_sectors ?? 0;
    return { gain: 1 - best.sawtooth.time_us / best.cyclic.time_us,
             saved: misses(best.cyclic) ? 1 - misses(best.sawtooth) / misses(best.cyclic) : 0 };
  };
  const orderEffect = (field) => {
    if (!orderEffects.has(field)) orderEffects.set(field, findOrderEffect(field));
    return orderEffects.get(field);
  };
  // The shape to open with: where sawtooth gains most time, and of those that gain none where it saves most.
  const kWorthMention = 0.002;
  const mostInteresting = () => {
    const rank = (field) => {
      const effect = orderEffect(field);
      return effect === null ? [-1, -1] : [effect.gain > kWorthMention ? effect.gain : 0, effect.saved];
    };
    let found = 0;
    data.fields.forEach((field, index) => {
      const [gain, saved] = rank(field);
      const [most, mostSaved] = rank(data.fields[found]);
      if (gain > most || (gain === most && saved > mostSaved)) found = index;
    });
    return found;
  };
  const whyInteresting = (field) => {
    const effect = orderEffect(field);
    if (effect === null) return "The first shape stored; no pair of variants that differ in their order alone was tried.";
    const how = field.provenance === "predicted" ? "is predicted to" : "was measured to";
    if (effect.gain > kWorthMention) return `Of all shapes stored, sawtooth gains most here: it ${how} take ${percent(effect.gain)} less time than cyclic, all else equal.`;
    if (effect.saved > 0) return `Sawtooth gains no time in any shape stored. Here it saves the most of what cyclic fetches again: ${percent(effect.saved)}.`;
    return "Sawtooth gains nothing in any shape stored.";
  };

  // ---- Another database beside this one.
  const against = () => {
    const other = data.against;
    if (!other) return [];
    const ratios = other.pairs.map((pair) => pair.time_us / pair.before_us);
    const mean = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / Math.max(ratios.length, 1));
    const kNoticeable = 0.01;
    const faster = ratios.filter((ratio) => ratio < 1 - kNoticeable).length;
    const slower = ratios.filter((ratio) => ratio > 1 + kNoticeable).length;
    const sentence = ratios.length === 0 ? `No shape is in both databases under the same conditions.`
      : `${whole(ratios.length)} shapes are in both. Time here over time there: ${digits(mean, 4)} in the geometric mean; ` +
        `${whole(faster)} are faster by 1 % or more, ${whole(slower)} slower. Only here: ${whole(other.only_here)}, only there: ${whole(other.only_there)}.`;
    return [h("h2", { id: "against" }, `Against ${other.database}`), h("p", {}, sentence),
      ...(ratios.length ? [table({
        caption: "Best variants, here and there", name: "against", records: other.pairs, limit: 20, cards: true, columns: [
          { title: "shape", get: (p) => p.title, wrap: true },
          { title: "provenance", get: (p) => p.provenance + (p.l2_state ? `, ${p.l2_state} L2` : "") },
          { title: "time here", kind: "number", get: (p) => p.time_us, text: time },
          { title: "time there", kind: "number", get: (p) => p.before_us, text: time },
          { title: "change", kind: "number", get: (p) => p.time_us / p.before_us - 1, text: (v) => `${v > 0 ? "+" : ""}${digits(v * 100, 3)} %` },
          { title: "variant here", get: (p) => p.label, wrap: true },
          { title: "variant there", get: (p) => (p.before_label === p.label ? "the same" : p.before_label), wrap: true }] })] : [])];
  };

  // ---- All shapes together.
  const overviewColumns = [
    { title: "shape", wrap: true, sort: (f) => f.title, get: (f) => { const link = h("a", { href: `#shape-${data.fields.indexOf(f)}` }, f.title); return link; } },
    ...(data.devices.length > 1 ? [{ title: "GPU", wrap: true, get: (f) => device(f).device.name.replace(/^NVIDIA /, "") }] : []),
    { title: "provenance", sort: (f) => f.provenance, get: (f) => badge(f) },
    { title: "best variant", get: (f) => bestRow(f)?.label ?? null, wrap: true },
    { title: "time", kind: "number", get: (f) => (bestRow(f) ? bestTime(bestRow(f)) : null), text: time },
    { title: "TFLOP/s", kind: "number", get: rate, text: (v) => digits(v, 4) },
    { title: "order gains", kind: "number", get: (f) => orderEffect(f)?.gain ?? null, text: percent },
    { title: "tied", kind: "number", get: (f) => (f.decided ? records(f).filter((r) => r.tied).length - 1 : null) },
    { title: "busiest unit", wrap: true, sort: (f) => f.unit_use?.[0]?.share ?? null,
      get: (f) => (f.unit_use?.length ? `${f.unit_use[0].unit} ${percent(f.unit_use[0].share)}` : null) },
    { title: "excess MB", kind: "number", get: (f) => { const r = bestRow(f); return r === null || r.excess_miss_sectors === null ? null : r.excess_miss_sectors * 32 / 1e6; }, text: (v) => rounded(v, 4) },
    { title: "2nd tile", kind: "number", get: (f) => f.tiles?.[1]?.loss ?? null, text: percent },
  ].filter((column) => data.fields.some((field) => column.get(field) !== null));
  const groups = (fields, key) => {
    const map = new Map();
    for (const field of fields) map.set(key(field), [...(map.get(key(field)) ?? []), field]);
    return [...map.values()];
  };
  const regimeFigures = () => groups(data.fields.filter((field) => field.roofline), (field) => {
    const p = field.problem;
    return JSON.stringify([field.device, field.provenance, field.l2_state, p.batch, p.heads_q, p.heads_kv, p.dtype, p.causal, p.alignment_bytes]);
  }).filter((group) => new Set(group.map((f) => `${f.problem.seq_kv} ${f.problem.head_dim}`)).size > 1).map((group) => {
    const p = group[0].problem;
    const cells = group.map((field) => {
      const best = bestRow(field);
      return { length: field.problem.seq_kv, dim: field.problem.head_dim, rate: field.roofline.tflop_per_s,
               tile: best.tile.split("x").slice(0, 2).join("x"), text: digits(field.roofline.tflop_per_s, 3), order: best.order, tip: `${field.title}\n${tip(best)}` };
    });
    return figure("regimes", `Regime map: batch ${p.batch}, heads ${p.heads_q}/${p.heads_kv}, ${p.dtype}, ${p.causal ? "causal" : "no mask"}`,
      `${group[0].provenance === "predicted" ? "Predicted" : "Measured"} on ${device(group[0]).device.name}: the best tile, its TFLOP/s and order.`,
      (colours, width) => swrCharts.regimes(cells, colours, width), new Set(cells.map((one) => one.length)).size > 6);
  });
  const overviewRooflines = () => groups(data.fields.filter((field) => field.roofline), (field) => `${field.device} ${field.provenance}`)
    .filter((group) => group.length > 1).map((group) => {
      const chip = device(group[0]);
      const point = (field, intensity) => {
        const best = bestRow(field);
        return { order: best.order, intensity, tflop: field.roofline.tflop_per_s, best: false, tip: `${field.title}\n${tip(best)}` };
      };
      const observed = group.filter((field) => field.roofline.observed_intensity !== null)
        .map((field) => point(field, field.roofline.observed_intensity));
      return figure("rooflines", `Roofline of the best variants, ${chip.device.name}`,
        `${group[0].provenance === "predicted" ? "Predicted" : "Measured"}; at the bytes that memory really moved. Roofs: profile ${chip.profile}.`,
        rooflineSpec(chip, observed, [], []));
    });

  const fact = (name, value) => h("li", {}, h("span", { class: "muted" }, `${name} `), value);
  const header = () => {
    document.getElementById("head").append(
      h("h1", {}, "swr report"),
      h("ul", { class: "facts" }, fact("database", data.database), fact("written", data.written_at),
        fact("shapes", whole(data.fields.length)),
        fact("results", whole(data.fields.reduce((sum, field) => sum + field.results, 0))),
        fact("swr", data.swr_version)));
  };
  const environment = () => [
    h("h2", { id: "environment" }, "Environment and provenance"),
    h("p", { class: "muted" }, "Measured values come from the GPU named; predicted ones from a model of it and are marked so in " +
      "every table and chart. Roofs, miss curves and sentences about limits use the profile named here."),
    table({ caption: "GPUs", name: "devices", records: data.devices, cards: true, columns: [
      { title: "GPU", get: (d) => d.text }, { title: "profile", get: (d) => d.profile },
      { title: "clock MHz", kind: "number", get: (d) => d.clock_mhz, text: (v) => digits(v, 5) },
      { title: "mma.sync TFLOP/s", kind: "number", get: (d) => d.peak_tflop_per_s, text: (v) => digits(v, 4) },
      { title: "memory GB/s, achievable", kind: "number", get: (d) => d.dram_gb_per_s, text: (v) => digits(v, 4) },
      { title: "L2 GB/s", kind: "number", get: (d) => d.l2_gb_per_s, text: (v) => digits(v, 4) },
      { title: "effective L2 MiB", kind: "number", get: (d) => d.l2_effective_bytes / 1048576, text: (v) => digits(v, 4) }] }),
    table({ caption: "Runs", name: "runs", records: data.runs, limit: 20, cards: true, columns: [
      { title: "run", kind: "number", get: (r) => r.id }, { title: "started (UTC)", get: (r) => r.started_at },
      { title: "finished (UTC)", get: (r) => r.finished_at ?? "not finished" },
      { title: "command", get: (r) => r.command, wrap: true }, { title: "strategy", get: (r) => r.strategy },
      { title: "L2", get: (r) => r.l2_state || null }, { title: "swr", get: (r) => r.swr_version },
      { title: "NVRTC", get: (r) => r.nvrtc_version }, { title: "driver", get: (r) => r.driver_version || null },
      { title: "templates", get: (r) => r.templates_digest.slice(0, 12) }] }),
    h("footer", { class: "muted" }, h("p", {}, `Written by ${data.command}`),
      h("p", {}, "Charts: Vega, \u00a9 University of Washington Interactive Data Lab; its licence is inside this page.")),
  ];
  const build = () => {
    header();
    const shapes = data.fields.map(shape);
    const setAll = (open) => { for (const one of shapes) one.open = open; };
    const openAll = h("button", { type: "button" }, "Open all");
    openAll.addEventListener("click", () => setAll(true));
    const closeAll = h("button", { type: "button" }, "Close all");
    closeAll.addEventListener("click", () => setAll(false));
    const maps = [...regimeFigures(), ...overviewRooflines()];
    const opened = mostInteresting();
    root.dataset.opened = String(opened);
    const gains = shapes.length > 0 && (orderEffect(data.fields[opened])?.gain ?? 0) > kWorthMention;
    document.getElementById("content").append(
      table({ caption: "Best variant of every shape", name: "overview", columns: overviewColumns, records: data.fields, limit: 8, cards: true }),
      ...(shapes.length ? [h("h2", {}, gains ? "Where the order matters most" : "One shape in detail"),
                           h("p", { class: "muted" }, whyInteresting(data.fields[opened])), shapes[opened]] : []),
      ...against(),
      ...(maps.length ? [h("h2", {}, "Across shapes"), h("div", { class: "charts" }, ...maps)] : []),
      ...(shapes.length > 1 ? [h("h2", { id: "shapes" }, "The other shapes"), h("p", { class: "muted" }, "What is open is printed."),
        h("div", { class: "tools" }, openAll, closeAll), ...shapes.filter((_, index) => index !== opened)] : []),
      ...environment());
    const openTarget = () => {
      const target = document.getElementById(location.hash.slice(1));
      if (target instanceof HTMLDetailsElement) { target.open = true; target.scrollIntoView(); }
    };
    addEventListener("hashchange", openTarget);
    if (shapes.length) shapes[opened].open = true;
    openTarget();
    root.dataset.builtMs = String(Math.round(performance.now()));
  };
  build();
})();
