// The overlay drawn: brokers as discs whose size and colour are their load, links as lines whose
// width and colour are their traffic, and a plan's marks around the links. One unit of the drawing
// is one pixel at any zoom, so texts and discs stay readable; zooming only moves brokers apart.

import { byId, el, isStill, milliseconds, number, bytes, show, svg } from "./dom.js";
import { brokerFacts, legendItems, linkFacts } from "./picture_words.js";

const MARGIN = 34;
const GLIDE_MS = 700;
const LETTER = 6.4; // the width of a letter of a name, about
const NAME_HEIGHT = 12;
const ZOOM_MAX = 8;

export class Picture {
  constructor(root) {
    this.root = root;
    this.halos = svg("g", { class: "halos" });
    this.wires = svg("g", { class: "wires" });
    this.discs = svg("g", { class: "discs" });
    root.append(this.halos, this.wires, this.discs);
    this.brokers = new Map(); // id -> {id, x, y, shownX, shownY, group, disc, label}
    this.links = new Map(); // "a|b" -> {a, b, role, when, isStanding, halo, wire}
    this.loads = { brokers: {}, links: new Map() };
    this.zoom = 1;
    this.pan = { x: 0, y: 0 };
    this.selected = null;
    this.focused = null;
    new ResizeObserver(() => this.place()).observe(root);
    this.listen();
  }

  // --- what the server says ---------------------------------------------------------------

  take(drawn) {
    this.keep(this.brokers, drawn.brokers, (b) => b.id, (b) => this.makeBroker(b), (known, b) => Object.assign(known, { x: b.x, y: b.y }));
    this.keep(this.links, drawn.links, (k) => `${k.a}|${k.b}`, () => this.makeLink(), (known, k) => {
      Object.assign(known, { a: k.a, b: k.b, role: k.role, when: k.when, isStanding: k.is_standing });
    });
    byId("picture-empty").hidden = drawn.brokers.length > 0;
    if (!drawn.brokers.length) byId("picture-empty").textContent = "There is no broker to draw.";
    if (!this.brokers.has(this.focused)) this.focused = drawn.brokers[0]?.id ?? null;
    if (!this.brokers.has(this.selected)) this.selected = null;
    for (const link of this.links.values()) this.dressLink(link);
    this.inStep = new Set();
    for (const link of this.links.values()) if (link.when === "now") this.inStep.add(link.a).add(link.b);
    this.glide();
    this.dress();
  }

  load(loads) {
    this.loads = { brokers: loads.brokers, links: new Map(loads.links.map((k) => [`${k.a}|${k.b}`, k])) };
    this.dress();
  }

  keep(known, wanted, keyOf, make, update) {
    const keys = new Set(wanted.map(keyOf));
    for (const [key, item] of known) {
      if (keys.has(key)) continue;
      for (const part of [item.group, item.halo, item.wire, item.touch]) part?.remove();
      known.delete(key);
    }
    for (const item of wanted) {
      const key = keyOf(item);
      if (!known.has(key)) known.set(key, make(item));
      update(known.get(key), item);
    }
  }

  makeBroker(broker) {
    const disc = svg("circle", { class: "disc" });
    const label = svg("text", { class: "label" }, broker.id);
    const grip = svg("circle", { class: "grip", r: 13 });
    const cross = svg("path", { class: "cross", d: "M-4-4 4 4M-4 4 4-4" });
    const group = svg("g", { class: "broker", role: "button", tabindex: -1, "data-broker": broker.id }, grip, disc, cross, label);
    this.discs.append(group);
    return { id: broker.id, x: broker.x, y: broker.y, shownX: broker.x, shownY: broker.y, group, disc, label };
  }

  makeLink() {
    const halo = svg("line", {});
    const wire = svg("line", { class: "wire" });
    const touch = svg("line", { class: "touch" });
    this.halos.append(halo);
    this.wires.append(wire, touch);
    const link = { halo, wire, touch };
    touch.addEventListener("click", () => this.select(`${link.a}|${link.b}`));
    return link;
  }

  // --- where things are -------------------------------------------------------------------

  glide() {
    const all = [...this.brokers.values()];
    const isMoved = all.some((b) => b.x !== b.shownX || b.y !== b.shownY);
    cancelAnimationFrame(this.frame);
    if (!isMoved || isStill.matches) {
      for (const b of all) { b.shownX = b.x; b.shownY = b.y; }
      this.place();
      return;
    }
    const from = all.map((b) => [b.shownX, b.shownY]);
    const began = performance.now();
    const move = (now) => {
      const share = Math.min(1, (now - began) / GLIDE_MS);
      const eased = share * share * (3 - 2 * share);
      all.forEach((b, i) => {
        b.shownX = from[i][0] + (b.x - from[i][0]) * eased;
        b.shownY = from[i][1] + (b.y - from[i][1]) * eased;
      });
      this.place();
      if (share < 1) this.frame = requestAnimationFrame(move);
    };
    this.frame = requestAnimationFrame(move);
  }

  place() {
    const { width, height } = this.root.getBoundingClientRect();
    if (!width || !height) return;
    this.size = { width, height };
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.spacing = Math.sqrt((width * height) / Math.max(1, this.brokers.size)) * this.zoom;
    for (const broker of this.brokers.values()) {
      broker.at = this.toPixels(broker.shownX, broker.shownY);
      broker.group.setAttribute("transform", `translate(${broker.at.x.toFixed(1)} ${broker.at.y.toFixed(1)})`);
    }
    for (const link of this.links.values()) {
      const [a, b] = [this.brokers.get(link.a)?.at, this.brokers.get(link.b)?.at];
      if (!a || !b) continue;
      for (const line of [link.halo, link.wire, link.touch]) {
        for (const [name, value] of Object.entries({ x1: a.x, y1: a.y, x2: b.x, y2: b.y })) line.setAttribute(name, value.toFixed(1));
      }
    }
    this.dressBrokers();
  }

  toPixels(x, y) {
    const { width, height } = this.size;
    return {
      x: width / 2 + x * this.zoom * (width / 2 - MARGIN) + this.pan.x,
      y: height / 2 + y * this.zoom * (height / 2 - MARGIN) + this.pan.y,
    };
  }

  zoomTo(zoom) {
    const next = Math.max(1, Math.min(ZOOM_MAX, zoom));
    const factor = next / this.zoom;
    this.pan = next === 1 ? { x: 0, y: 0 } : { x: this.pan.x * factor, y: this.pan.y * factor };
    this.zoom = next;
    this.root.classList.toggle("zoomed", next > 1);
    this.place();
    this.dress();
  }

  // --- how things look --------------------------------------------------------------------

  dress() {
    let most = 0;
    for (const load of this.loads.links.values()) most = Math.max(most, load.messages_per_s);
    for (const [key, link] of this.links) {
      const load = this.loads.links.get(key);
      const share = most > 0 ? Math.sqrt((load?.messages_per_s ?? 0) / most) : 0;
      link.wire.style.setProperty("--share", `${Math.round(share * 100)}%`);
      const width = 1.2 + share * Math.min(9, Math.max(3, this.spacing / 9));
      link.wire.style.strokeWidth = `${width.toFixed(1)}px`;
      link.halo.style.setProperty("--width", `${(link.isStanding ? width + 8 : 5).toFixed(1)}px`);
      link.wire.classList.toggle("down", link.isStanding && load !== undefined && !load.is_up);
      link.touch.setAttribute("data-link", key);
    }
    this.dressBrokers();
    this.showLegend(most);
    this.showDetail();
  }

  showLegend(mostTraffic) {
    const mostLoad = Math.max(0, ...Object.values(this.loads.brokers).map((load) => load.publications_per_s));
    const links = [...this.links.values()];
    const key = [number(mostTraffic), number(mostLoad), links.map((k) => [k.role, k.when])];
    show(byId("legend"), key, () => legendItems(links, mostTraffic, mostLoad));
  }

  dressLink(link) {
    const mark = link.role ? `${link.role} ${link.when}` : "";
    link.halo.setAttribute("class", `halo ${mark}${link.isStanding ? "" : " absent"}`);
    link.wire.setAttribute("class", link.isStanding ? `wire ${mark}` : "wire absent");
  }

  dressBrokers() {
    const loads = Object.values(this.loads.brokers);
    const most = Math.max(0, ...loads.map((load) => load.publications_per_s));
    const base = Math.max(3.2, Math.min(11, (this.spacing ?? 40) * 0.13));
    for (const broker of this.brokers.values()) {
      const load = this.loads.brokers[broker.id];
      const share = most > 0 && load ? Math.sqrt(load.publications_per_s / most) : 0;
      const radius = base * (0.75 + 0.75 * share);
      broker.disc.setAttribute("r", radius.toFixed(1));
      broker.disc.style.setProperty("--share", `${Math.round(share * 100)}%`);
      broker.label.setAttribute("y", (radius + 11).toFixed(1));
      broker.radius = radius;
      broker.share = share;
      const is = {
        down: load !== undefined && !load.is_up,
        unknown: load === undefined,
        congested: load?.is_congested ?? false,
        acting: this.inStep?.has(broker.id) ?? false,
        selected: broker.id === this.selected,
      };
      for (const [name, isSo] of Object.entries(is)) broker.group.classList.toggle(name, isSo);
      broker.group.setAttribute("tabindex", broker.id === this.focused ? 0 : -1);
      broker.group.setAttribute("aria-label", brokerFacts(broker.id, load).join(", "));
      broker.rank = is.selected * 8 + is.down * 4 + is.acting * 2 + share;
    }
    this.name();
  }

  // Names are shown where they cover no other name and no broker, those that matter most first.
  name() {
    const all = [...this.brokers.values()].filter((broker) => broker.at);
    const boxes = [];
    const meets = (one, other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
    const discs = all.map((b) => ({ owner: b, left: b.at.x - b.radius, right: b.at.x + b.radius, top: b.at.y - b.radius, bottom: b.at.y + b.radius }));
    for (const broker of all.sort((a, b) => b.rank - a.rank)) {
      const half = (broker.id.length * LETTER) / 2;
      const top = broker.at.y + broker.radius + 1;
      const box = { left: broker.at.x - half, right: broker.at.x + half, top, bottom: top + NAME_HEIGHT };
      const isFree = broker.rank >= 2 || !(boxes.some((b) => meets(b, box)) || discs.some((d) => d.owner !== broker && meets(d, box)));
      broker.group.classList.toggle("named", isFree);
      if (isFree) boxes.push(box);
    }
  }

  showDetail() {
    const facts = this.selected === null ? null : this.brokers.has(this.selected)
      ? brokerFacts(this.selected, this.loads.brokers[this.selected])
      : linkFacts(this.links.get(this.selected), this.loads.links.get(this.selected));
    const near = this.brokers.has(this.selected) ? [...this.links.values()].filter((k) => k.isStanding && (k.a === this.selected || k.b === this.selected)) : [];
    const rows = near.map((k) => {
      const load = this.loads.links.get(`${k.a}|${k.b}`);
      return [k.a === this.selected ? k.b : k.a, number(load?.messages_per_s), milliseconds(load?.rtt_ms), bytes(load?.queue_bytes ?? 0)];
    });
    show(byId("detail"), [facts, rows], () => {
      if (!facts) return el("p", { class: "muted" }, "Select a broker or a link to see its figures.");
      const table = !rows.length ? null : el("div", { class: "scroll" }, el("table", {},
        el("thead", {}, el("tr", {}, ["link to", "messages/s", "round trip", "queued"].map((t) => el("th", { scope: "col" }, t)))),
        el("tbody", {}, rows.map(([name, ...values]) => el("tr", {}, el("th", { scope: "row" }, name), values.map((v) => el("td", {}, v)))))));
      return [el("p", {}, el("strong", {}, facts[0]), ` ${facts.slice(1).join(", ")}`), table];
    });
  }

  select(key) {
    this.selected = key;
    if (this.brokers.has(key)) this.focused = key;
    for (const [name, link] of this.links) link.wire.classList.toggle("selected", name === key);
    this.dressBrokers();
    this.showDetail();
  }

  // --- what a person does -----------------------------------------------------------------

  listen() {
    byId("zoom-in").addEventListener("click", () => this.zoomTo(this.zoom * 1.6));
    byId("zoom-out").addEventListener("click", () => this.zoomTo(this.zoom / 1.6));
    byId("zoom-fit").addEventListener("click", () => this.zoomTo(1));
    this.root.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return; // a wheel alone scrolls the page; a pinch comes with ctrl
      event.preventDefault();
      this.zoomTo(this.zoom * Math.exp(-event.deltaY / 200));
    }, { passive: false });
    this.root.addEventListener("pointerdown", (event) => this.drag(event));
    this.discs.addEventListener("click", (event) => {
      const id = event.target.closest("[data-broker]")?.dataset.broker;
      if (id) this.select(id);
    });
    // On the box around: an SVG element that listens to focus would take it itself.
    byId("picture-box").addEventListener("focusin", (event) => {
      const id = event.target.closest("[data-broker]")?.dataset.broker;
      if (id) { this.focused = id; this.dressBrokers(); }
    });
    this.root.addEventListener("keydown", (event) => this.onKey(event));
  }

  drag(event) {
    if (this.zoom === 1) return;
    const start = { x: event.clientX - this.pan.x, y: event.clientY - this.pan.y };
    const move = (moved) => {
      this.pan = { x: moved.clientX - start.x, y: moved.clientY - start.y };
      this.place();
    };
    const end = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", end);
      window.removeEventListener("pointercancel", end);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end);
    window.addEventListener("pointercancel", end);
  }

  onKey(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Escape") this.select(null);
    else if (event.key === "Enter" || event.key === " ") this.select(this.focused);
    else if (event.key === "+") this.zoomTo(this.zoom * 1.6);
    else if (event.key === "-") this.zoomTo(this.zoom / 1.6);
    else if (ways[event.key]) this.step(...ways[event.key]);
    else return;
    event.preventDefault();
  }

  // The nearest broker in a direction; what lies aside counts double.
  step(dx, dy) {
    const here = this.brokers.get(this.focused)?.at;
    if (!here) return;
    let best = null;
    let least = Infinity;
    for (const broker of this.brokers.values()) {
      const along = (broker.at.x - here.x) * dx + (broker.at.y - here.y) * dy;
      const aside = Math.abs((broker.at.x - here.x) * dy) + Math.abs((broker.at.y - here.y) * dx);
      if (along <= 1 || along + 2 * aside >= least) continue;
      least = along + 2 * aside;
      best = broker;
    }
    best?.group.focus();
  }
}
