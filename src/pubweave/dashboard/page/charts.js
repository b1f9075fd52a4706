// Time lines, drawn by hand: rate, latency, queues and cost over the last minutes.

import { clock, el, milliseconds, number, svg } from "./dom.js";

// In the order in which the server writes a point.
const FIELDS = ["number", "at", "publications_per_s", "deliveries_per_s", "latency_mean_ms", "latency_p50_ms",
  "latency_p95_ms", "latency_p99_ms", "queue_messages", "queue_bytes", "cost_per_s"];
const KEPT = 900;
const TOP = 10, BOTTOM = 20, LEFT = 44, RIGHT = 8;
const GAP_S = 12; // a longer silence is a gap in the line

const CHARTS = [
  { id: "rate", title: "Rate", unit: "per second", text: number, lines: [["publications_per_s", "publications"], ["deliveries_per_s", "deliveries"]] },
  { id: "latency", title: "Latency", unit: "from publishing to delivery", text: milliseconds, lines: [["latency_p50_ms", "median"], ["latency_p95_ms", "95%"], ["latency_p99_ms", "99%"]], empty: "No telemetry of deliveries yet: latencies are shown as soon as brokers record some." },
  { id: "queue", title: "Queues", unit: "messages waiting", text: number, lines: [["queue_messages", "messages"]], leastTop: 10 },
  { id: "cost", title: "Cost", unit: "ms of notification time per second", text: number, lines: [["cost_per_s", "cost"]], empty: "The cost is not known yet: it needs telemetry and traffic." },
];

export class Charts {
  constructor(root) {
    this.points = [];
    this.minutes = 5;
    this.marks = [];
    this.plan = null;
    this.charts = CHARTS.map((chart) => this.make(root, chart));
    new ResizeObserver(() => this.draw()).observe(root);
    for (const button of document.querySelectorAll("[data-minutes]")) {
      button.addEventListener("click", () => this.choose(Number(button.dataset.minutes)));
    }
  }

  make(root, chart) {
    const picture = svg("svg", { class: "chart", role: "img" });
    const value = el("span", { class: "chart-value" });
    const key = el("p", { class: "chart-key" }, chart.lines.length > 1
      ? chart.lines.map(([, name], i) => el("span", { class: `key line-${i}` }, name))
      : el("span", { class: "muted" }, chart.unit));
    const empty = el("p", { class: "empty", hidden: true }, chart.empty ?? "Nothing measured yet.");
    root.append(el("figure", { class: "card", id: `chart-${chart.id}` },
      el("figcaption", {}, el("strong", {}, chart.title), value), key, picture, empty));
    const made = { ...chart, picture, value, empty, cursor: null };
    picture.addEventListener("pointermove", (event) => this.point(event));
    picture.addEventListener("pointerleave", () => this.point(null));
    return made;
  }

  choose(minutes) {
    this.minutes = minutes;
    for (const button of document.querySelectorAll("[data-minutes]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.minutes) === minutes));
    }
    this.draw();
  }

  add(rows) {
    const newest = this.points.at(-1)?.at ?? 0;
    for (const row of rows) {
      const point = Object.fromEntries(FIELDS.map((name, i) => [name, row[i]]));
      if (point.at > newest) this.points.push(point);
    }
    this.points.splice(0, Math.max(0, this.points.length - KEPT));
    this.draw();
  }

  markDecisions(decisions) {
    this.marks = decisions.filter((d) => d.deploying_at).map((d) => ({ from: d.deploying_at, to: d.ended_at }));
  }

  markPlan(plan) {
    this.plan = plan;
  }

  point(event) {
    this.cursorShare = event === null ? null : (event.offsetX - LEFT) / (event.currentTarget.getBoundingClientRect().width - LEFT - RIGHT);
    this.draw();
  }

  draw() {
    const end = this.points.at(-1)?.at;
    if (end === undefined) return;
    const start = end - this.minutes * 60;
    const first = Math.max(0, this.points.findIndex((point) => point.at >= start) - 1);
    const seen = this.points.slice(first);
    for (const chart of this.charts) this.drawOne(chart, seen, start, end);
  }

  drawOne(chart, seen, start, end) {
    const values = seen.flatMap((point) => chart.lines.map(([name]) => point[name])).filter((v) => v !== null);
    chart.empty.hidden = values.length > 0;
    chart.picture.classList.toggle("blank", values.length === 0);
    const { width, height } = chart.picture.getBoundingClientRect();
    if (!values.length || !width) { chart.value.textContent = "–"; return; }
    const top = niceTop(Math.max(chart.leastTop ?? 0, ...values));
    const x = (at) => LEFT + ((at - start) / (end - start)) * (width - LEFT - RIGHT);
    const y = (value) => TOP + (1 - value / top) * (height - TOP - BOTTOM);
    const shown = this.cursorShare === null || this.cursorShare === undefined ? seen.at(-1) : nearest(seen, start + this.cursorShare * (end - start));
    chart.value.textContent = chart.lines.map(([name]) => chart.text(shown[name])).join(" · ") + (shown === seen.at(-1) ? "" : ` at ${clock(shown.at)}`);
    chart.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    chart.picture.setAttribute("aria-label", `${chart.title} over ${this.minutes} minutes; now ${chart.lines.map(([name, word]) => `${word} ${chart.text(seen.at(-1)[name])}`).join(", ")}; at most ${chart.text(Math.max(...values))}`);
    chart.picture.replaceChildren(
      ...this.bands(x, start, end, height),
      ...[0, top / 2, top].flatMap((value) => [
        svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        svg("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, number(value)),
      ]),
      svg("text", { class: "tick", x: LEFT, y: height - 4 }, clock(start, false)),
      svg("text", { class: "tick", x: width - RIGHT, y: height - 4, "text-anchor": "end" }, clock(end, false)),
      ...chart.lines.map(([name], i) => svg("path", { class: `line line-${i}`, d: path(seen, name, x, y) })),
      ...(shown === seen.at(-1) ? [] : [svg("line", { class: "cursor", x1: x(shown.at), x2: x(shown.at), y1: TOP, y2: height - BOTTOM })]),
    );
  }

  // The times at which a plan was carried out.
  bands(x, start, end, height) {
    return this.marks.filter((mark) => (mark.to ?? end) >= start).map((mark) => {
      const [from, to] = [Math.max(mark.from, start), Math.min(mark.to ?? end, end)];
      return svg("rect", { class: "band", x: x(from), width: Math.max(2, x(to) - x(from)), y: TOP, height: height - TOP - BOTTOM },
        svg("title", {}, `a plan was carried out from ${clock(mark.from)}`));
    });
  }
}

function niceTop(value) {
  if (value <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 8, 10].map((step) => step * size).find((top) => top >= value * 1.02) ?? 20 * size;
}

function nearest(points, at) {
  return points.reduce((best, point) => (Math.abs(point.at - at) < Math.abs(best.at - at) ? point : best));
}

function path(points, name, x, y) {
  let drawn = "";
  let before = null;
  for (const point of points) {
    if (point[name] === null) { before = null; continue; }
    const isNew = before === null || point.at - before > GAP_S;
    drawn += `${isNew ? "M" : "L"}${Math.max(LEFT, x(point.at)).toFixed(1)} ${y(point[name]).toFixed(1)}`;
    before = point.at;
  }
  return drawn;
}
