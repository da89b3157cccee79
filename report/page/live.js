// SPDX-License-Identifier: MIT
// Shows what a run does while it does it: asks for the state once a second and draws what changed.
// Text of the state reaches the document as text nodes only.
"use strict";

(() => {
  const root = document.documentElement;
  root.dataset.errors = "0";
  root.dataset.news = "0";
  const note = (message) => {
    root.dataset.errors = String(Number(root.dataset.errors) + 1);
    root.dataset.error = String(message);
  };
  addEventListener("error", (event) => note(event.message));
  addEventListener("unhandledrejection", (event) => note(event.reason));

  const { digits, whole, timeUnit, time, h, theme } = swrCommon;
  const clock = (seconds) => {
    const s = Math.max(0, Math.round(seconds));
    return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`;
  };

  // ---- Charts.
  const draw = (chart, run) => {
    const width = Math.floor(chart.place.clientWidth);
    if (width === 0 || run.times_us.length === 0) return;
    const colours = theme();
    const [size, unit] = timeUnit(run.best_us ?? run.times_us[0][1]);
    const scaled = (pairs) => pairs.map(([done, us]) => ({ done, time: us / size, tip: `${whole(done)} tried: ${time(us)}` }));
    const bests = scaled(run.bests_us);
    if (bests.length) bests.push({ ...bests[bests.length - 1], done: Math.max(run.done, 1) });
    const spec = swrCharts.live(scaled(run.times_us), bests, Math.max(run.variants, 1), unit, colours, width);
    chart.view?.finalize();
    const { view, drawn } = swrCommon.drawChart(chart.place, spec, colours);
    chart.view = view;
    drawn.then(() => { chart.place.dataset.points = String(run.times_us.length); }).catch(note);
  };

  // ---- Runs: one card for each GPU, made once and then filled.
  const cards = new Map();
  const makeCard = () => {
    const parts = { name: h("h2", {}), badge: h("span", { class: "badge" }), phase: h("p", { class: "phase" }),
                    bar: h("progress", { max: "1", value: "0", "aria-label": "variants done" }),
                    facts: h("ul", { class: "facts" }), place: h("div", { class: "chart", "data-chart": "live" }) };
    parts.card = h("article", { class: "card live" }, parts.name, parts.badge, parts.phase, parts.bar, parts.facts, parts.place);
    parts.chart = { place: parts.place };
    document.getElementById("runs").append(parts.card);
    return parts;
  };
  const fact = (name, value) => h("li", {}, h("span", { class: "muted" }, `${name} `), value);
  // A run that was killed says nothing more.
  const kSilentS = 120;
  const isSilent = (run, now) => !run.is_over && run.changed_at > 0 && now - run.changed_at > kSilentS;
  const secondsLeft = (run, now) => {
    const fresh = run.done - run.known;
    const elapsed = now - run.started_at;
    if (run.is_over || isSilent(run, now) || fresh < 2 || run.started_at === 0 || run.variants <= run.done) return null;
    return elapsed / fresh * (run.variants - run.done);
  };
  const doing = (run, now) => {
    if (run.is_interrupted) return "interrupted";
    if (run.is_over) return "done";
    if (isSilent(run, now)) return `no sign for ${clock(now - run.changed_at)}`;
    if (run.phase) return run.phase;
    return run.done === 0 ? "compiling the first kernels" : "trying variants";
  };
  const fill = (parts, run, source, now) => {
    const gpu = run.gpu === null ? "" : `GPU ${run.gpu}: `;
    parts.name.textContent = `${gpu}${run.title || "choosing what to try"}`;
    parts.badge.className = `badge ${run.provenance}`;
    parts.badge.textContent = run.provenance;
    parts.badge.hidden = run.provenance === "";
    parts.phase.textContent = `${doing(run, now)}${source ? ` (${source})` : ""}`;
    parts.bar.value = run.variants ? run.done / run.variants : 0;
    const left = secondsLeft(run, now);
    const failures = Object.entries(run.failed).map(([state, count]) => `${whole(count)} ${state}`).join(", ");
    parts.facts.replaceChildren(
      fact("variants", `${whole(run.done)} of ${whole(run.variants)}`),
      ...(run.known ? [fact("known before", whole(run.known))] : []),
      ...(run.best_us ? [fact("best so far", time(run.best_us))] : []),
      ...(left === null ? [] : [fact("time left, about", clock(left))]),
      ...(failures ? [fact("without a time", failures)] : []),
      ...(run.best_key ? [h("li", { class: "key" }, h("span", { class: "muted" }, "best variant "), run.best_key)] : []));
    const seen = `${run.started_at} ${run.times_us.length} ${run.done}`;
    if (parts.seen !== seen) {
      parts.seen = seen;
      draw(parts.chart, run);
    }
    parts.run = run;
  };

  // ---- Tables.
  const table = (caption, titles, rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, ...titles.map((title) => h("th", { scope: "col", class: "text" }, title)))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((value) => h("td", { class: "text" }, value)))))));
  const put = (id, content) => document.getElementById(id).replaceChildren(...(content ? [content] : []));
  const known = (value, unit) => (value === null || value === undefined ? "unknown" : `${whole(Math.round(value))} ${unit}`);
  const fillTables = (state) => {
    put("gpus", state.gpus.length ? table("GPUs", ["GPU", "SM clock", "memory clock", "temperature", "power", "slowed down by"],
      state.gpus.map((gpu) => [`${gpu.number} ${gpu.name}`, known(gpu.sm_clock_mhz, "MHz"), known(gpu.memory_clock_mhz, "MHz"),
                               known(gpu.temperature_c, "\u00b0C"), known(gpu.power_w, "W"), gpu.slowed_by || "nothing"]))
      : h("p", { class: "muted" }, `Clocks and temperature: ${state.gpus_unknown}`));
    const queue = state.queue;
    put("queue", queue ? h("div", {},
      h("h2", {}, `Queue: ${whole(queue.done)} of ${whole(queue.pieces)} problems done, ${whole(queue.open)} open`),
      h("progress", { max: String(Math.max(queue.pieces, 1)), value: String(queue.done), "aria-label": "problems done" }),
      queue.leased.length ? table("Being worked on", ["problem", "worker", "last sign"],
        queue.leased.map((one) => [one.piece, one.worker, `${clock(one.silent_s)} ago`])) : null) : null);
    const last = state.sources.flatMap((source) => source.last);
    put("last", last.length ? table("Finished problems", ["problem", "best", "took", "variant"],
      last.map((one) => [one.title, one.best_us === null ? "none" : time(one.best_us),
                         one.is_interrupted ? "interrupted" : clock(one.total_s), one.best_key || "none"])) : null);
  };

  const show = (state) => {
    document.getElementById("source").textContent = `${state.source}, read ${new Date(state.now * 1000).toLocaleTimeString()}`;
    const present = new Set();
    for (const source of state.sources) {
      for (const run of source.runs) {
        const id = `${source.name} ${run.gpu}`;
        present.add(id);
        if (!cards.has(id)) cards.set(id, makeCard());
        fill(cards.get(id), run, state.sources.length > 1 ? source.name : "", state.now);
      }
    }
    for (const [id, parts] of cards) {
      if (!present.has(id)) { parts.card.remove(); cards.delete(id); }
    }
    document.getElementById("waiting").hidden = present.size > 0;
    fillTables(state);
    root.dataset.news = String(Number(root.dataset.news) + 1);
  };

  const kEveryMs = 1000;
  const ask = async () => {
    let answer = null;
    try {
      answer = await fetch("state", { cache: "no-store" });
    } catch {
      document.getElementById("away").hidden = false;  // Nobody listens any more.
      return;
    }
    show(await answer.json());
    setTimeout(ask, kEveryMs);
  };
  const redraw = () => { for (const parts of cards.values()) draw(parts.chart, parts.run); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let resizing = 0;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redraw, 150); });
  ask();
})();
