// Making elements and writing figures. Texts go in as text nodes only: nothing here or elsewhere on
// the page turns a string into markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

// Replace what an element holds, but only if it would look different: a reader's selection, focus
// and screen reader are left alone otherwise.
const shown = new WeakMap();
export function show(element, key, make) {
  const text = JSON.stringify(key);
  if (shown.get(element) === text) return false;
  shown.set(element, text);
  element.replaceChildren(...[make()].flat().filter(Boolean));
  return true;
}

const steps = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];

export function number(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, letter] of steps) {
    if (Math.abs(value) >= size) {
      const scaled = value / (letter === "k" ? 1e3 : size);
      return `${scaled.toPrecision(3)}${letter}`.replace(/\.0+(?=[kMG])/, "");
    }
  }
  const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1000 ? `${number(value / 1000)} s` : `${number(value)} ms`;
}

export function bytes(value) {
  for (const unit of ["B", "kB", "MB"]) {
    if (value < 1024) return `${number(value)} ${unit}`;
    value /= 1024;
  }
  return `${number(value)} GB`;
}

export function percent(share) {
  if (share === null || share === undefined) return "–";
  return `${number(Math.round(share * 1000) / 10)}%`;
}

export function clock(seconds, withSeconds = true) {
  const format = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (withSeconds) format.second = "2-digit";
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", format);
}

export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

export const isStill = window.matchMedia("(prefers-reduced-motion: reduce)");
