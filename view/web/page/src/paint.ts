// Draws the visible boxes. A pod is a square; if squares would be smaller than 2 pixels, there is one area per state
// instead.

import type { Choice } from "./fragment";
import { from, type Box, type Group, type Layout } from "./layout";
import { t } from "./language";
import { perHour, plural } from "./text";
import { gauges, goes, priced, share, titleOf, type ClusterState, type Gauge } from "./state";

/** Palette holds the colours of the page's style in the current theme. */
export type Palette = Record<
  "text" | "faint" | "box" | "edge" | "chosen" | "running" | "starting" | "stopping" | "system" | "dim" | "bar" | "full" | "waits" | "goes" | "shade", string>;

const names: (keyof Palette)[] = [
  "text", "faint", "box", "edge", "chosen", "running", "starting", "stopping", "system", "dim", "bar", "full", "waits", "goes", "shade",
];

export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(names.map((n) => [n, style.getPropertyValue("--" + n).trim()])) as Palette;
}

const waits = new Set(["Launching", "Launched", "Registered", "NotReady"]);

/** large reports whether a box has room for its utilisation in numbers. */
const large = (b: Box): boolean => b.w >= 132 && b.h >= 80;

/** Cells is the grid of the pods in a box. */
export interface Cells {
  x: number; // within the box
  y: number;
  columns: number;
  size: number; // of a cell with its gap; cells below 2 are not drawn individually
  bars: Gauge[]; // those for which there is room
}

const rowHeight = 15, barWidth = 6.5;

export function cells(l: Layout, b: Box, resources: string[]): Cells {
  const scale = l.text;
  const top = b.h >= 44 * scale && named(b, scale) ? 32 * scale : 4;
  const room = large(b) ? Math.floor((b.h - top) / rowHeight) - 1 : b.w >= 57 ? Infinity : 0;
  const bars = gauges(b.m, resources).slice(0, Math.max(2, room));
  const x = large(b) ? 8 : b.w >= 44 ? (5 + barWidth * bars.length) * Math.min(1, scale) : 4, y = large(b) ? top + rowHeight * bars.length + 2 : top;
  const width = b.w - x - 4, height = b.h - y - 4, pods = b.m.pods.length;
  let size = Math.min(l.cell, width, height);
  const fits = (s: number): boolean => Math.floor(width / s) * Math.floor(height / s) >= pods;
  while (size >= 2 && !fits(size)) size -= size > 6 ? 1 : 0.5;
  return { x, y, columns: Math.max(1, Math.floor(width / Math.max(size, 0.1))), size, bars };
}

/** cellAt returns the index of the pod at a position in a box; -1 if there is none. */
export function cellAt(l: Layout, b: Box, resources: string[], x: number, y: number): number {
  const c = cells(l, b, resources);
  const column = Math.floor((x - b.x - c.x) / c.size), row = Math.floor((y - b.y - c.y) / c.size);
  const i = row * c.columns + column;
  return c.size >= 2 && column >= 0 && column < c.columns && row >= 0 && i < b.m.pods.length ? i : -1;
}

/** named reports whether a box has room for a name. */
const named = (b: Box, scale: number): boolean => 9 * scale >= 6 && b.w >= 50 && b.h >= 30;

const states: [string, keyof Palette][] = [["r", "running"], ["R", "system"], ["p", "starting"], ["P", "starting"], ["t", "stopping"], ["T", "stopping"]];

/** paint draws the part between top and top+tall. */
export function paint(g: CanvasRenderingContext2D, l: Layout, w: ClusterState, c: Choice, p: Palette, chosen: number, most: number, top: number, wide: number, tall: number): void {
  g.clearRect(0, 0, wide, tall);
  g.save();
  g.translate(0, -top);
  g.textBaseline = "middle";
  for (const group of l.groups) if (group.y > top - 30 && group.y < top + tall) head(g, group, w, p, wide);
  const seen: Box[] = [];
  for (let i = from(l, top); i < l.boxes.length && l.boxes[i]!.y < top + tall; i++) seen.push(l.boxes[i]!);
  boxes(g, seen, l, w, c, p, chosen, most);
  g.restore();
}

/** repaint redraws some boxes, and the heads of their groups, in the part between top and top+tall. */
export function repaint(g: CanvasRenderingContext2D, some: Box[], l: Layout, w: ClusterState, c: Choice, p: Palette, chosen: number, most: number, top: number, wide: number, tall: number): void {
  const seen = some.filter((b) => b.y + b.h >= top && b.y < top + tall);
  const groups = new Set(some.map((b) => b.group).filter((x) => x && x.y > top - 30 && x.y < top + tall));
  if (seen.length + groups.size === 0) return;
  g.save();
  g.translate(0, -top);
  g.textBaseline = "middle";
  for (const group of groups) {
    g.clearRect(0, group!.y, wide, 26);
    head(g, group!, w, p, wide);
  }
  for (const b of seen) g.clearRect(b.x, b.y, b.w, b.h);
  boxes(g, seen, l, w, c, p, chosen, most);
  g.restore();
}

/** mostPaid returns the price with the strongest shade; 0 if boxes are not shaded by price. */
export function mostPaid(l: Layout, c: Choice): number {
  let most = 0;
  if (c.color === "price") for (const b of l.boxes) most = Math.max(most, b.m.price);
  return most;
}

function boxes(g: CanvasRenderingContext2D, seen: Box[], l: Layout, w: ClusterState, c: Choice, p: Palette, chosen: number, most: number): void {
  const grid = new Map(seen.map((b) => [b, cells(l, b, w.resources)]));
  for (const b of seen) frame(g, b, w, c, p, b.m.id === chosen, most, grid.get(b)!);
  for (const [letter, color] of states) {
    g.fillStyle = g.strokeStyle = p[color];
    g.lineWidth = 1;
    for (const b of seen) if (b.m.pods.includes(letter)) fill(g, b, grid.get(b)!, letter);
  }
  g.fillStyle = p.dim;
  for (const b of seen) if (b.found) dim(g, b, grid.get(b)!);
  for (const b of seen) if (named(b, l.text)) words(g, b, l.text, p);
}

const percent = (requests: number[], allocatable: number[], i: number): string =>
  allocatable[i] ? `${Math.round((100 * (requests[i] ?? 0)) / allocatable[i]!)}%` : "";

/** shortened cuts a text between graphemes so that it fits in a width, and ends it with "…". */
function shortened(g: CanvasRenderingContext2D, text: string, width: number): string {
  if (g.measureText(text).width <= width) return text;
  const ends = [...new Intl.Segmenter().segment(text)].map((s) => s.index);
  const cut = (i: number): string => text.slice(0, ends[i]) + "…";
  let low = 0, high = ends.length - 1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (g.measureText(cut(mid)).width <= width) low = mid;
    else high = mid - 1;
  }
  return cut(low);
}

/** head draws the name of a group and as many of its figures as there is room for beside it; a name may need a third of the width, and takes what is left. */
function head(g: CanvasRenderingContext2D, group: Group, w: ClusterState, p: Palette, wide: number): void {
  const used = gauges(group, w.resources).map((bar) => [titleOf(bar.name), percent(group.requests, group.allocatable, bar.at)]).filter(([, x]) => x).map((x) => x.join(" "));
  const figures = [plural(group.nodes, "node"), plural(group.pods, "pod"), group.price ? `${perHour(group.price)}/h` : "", ...used].filter(Boolean);
  const name = group.name || t("(none)"), bold = "600 13px system-ui, sans-serif", small = "12px system-ui, sans-serif", edge = 8, gap = 10;
  const room = (): number => wide - edge - gap - g.measureText(figures.join(" · ")).width - edge;
  g.font = bold;
  const need = Math.min(g.measureText(name).width, wide / 3);
  g.font = small;
  while (figures.length > 1 && room() < need) figures.pop();
  const most = room();
  g.font = bold;
  g.fillStyle = p.text;
  const shown = shortened(g, name, most);
  g.fillText(shown, edge, group.y + 13);
  const after = edge + g.measureText(shown).width + gap;
  g.font = small;
  g.fillStyle = p.faint;
  g.fillText(figures.join(" · "), after, group.y + 13);
}

function frame(g: CanvasRenderingContext2D, b: Box, w: ClusterState, c: Choice, p: Palette, chosen: boolean, most: number, grid: Cells): void {
  const round = Math.min(4, b.w / 6, b.h / 6);
  g.beginPath();
  g.roundRect(b.x + 0.5, b.y + 0.5, b.w - 1, b.h - 1, round);
  g.fillStyle = p.box;
  g.fill();
  const resource = w.resources.indexOf(c.color);
  const strength = resource >= 0 ? Math.min(1, share(b.m, resource)) : most > 0 ? b.m.price / most : 0;
  if (strength > 0) {
    g.globalAlpha = 0.75 * strength;
    g.fillStyle = p.shade;
    g.fill();
    g.globalAlpha = 1;
  }
  const going = goes.has(b.m.status), waiting = waits.has(b.m.status);
  g.lineWidth = chosen ? 3 : going || waiting ? 2 : 1;
  g.strokeStyle = chosen ? p.chosen : going ? p.goes : waiting ? p.waits : p.edge;
  if (!b.m.hasNode) g.setLineDash([4, 3]);
  g.stroke();
  if (!b.m.hasNode) g.setLineDash([]);
  if (b.m.microVM && c.scale > 0.4 && b.w > 20) {
    g.lineWidth = 1;
    g.strokeRect(b.x + 3.5, b.y + 3.5, b.w - 7, b.h - 7);
  }
  if (going || waiting) sign(g, b, going);
  for (const [i, bar] of grid.bars.entries()) {
    const used = Math.min(1, share(b.m, bar.at));
    if (large(b)) {
      row(g, b, titleOf(bar.name), used, b.y + grid.y - rowHeight * (grid.bars.length - i) - 2, p);
    } else if (grid.x > 8) {
      const x = b.x + (4 + barWidth * i) * Math.min(1, c.scale), y = b.y + grid.y, wide = Math.max(1, 4 * Math.min(1, c.scale)), tall = b.h - grid.y - 4;
      g.fillStyle = p.bar;
      g.fillRect(x, y, wide, tall);
      g.fillStyle = p.full;
      g.fillRect(x, y + tall * (1 - used), wide, tall * used);
    }
  }
}

/** sign draws a shape in addition to the colour: a cross on a node being removed, a triangle on one that is not ready yet. */
function sign(g: CanvasRenderingContext2D, b: Box, going: boolean): void {
  const s = Math.min(9, b.w / 3, b.h / 3), x = b.x + b.w - s - 5, y = b.y + 5;
  g.fillStyle = g.strokeStyle;
  g.beginPath();
  if (going) {
    g.moveTo(x, y);
    g.lineTo(x + s, y + s);
    g.moveTo(x + s, y);
    g.lineTo(x, y + s);
    g.lineWidth = 2;
    g.stroke();
    return;
  }
  g.moveTo(x, y + s);
  g.lineTo(x + s / 2, y);
  g.lineTo(x + s, y + s);
  g.fill();
}

/** row draws the utilisation of a resource, as a number and as a bar. */
function row(g: CanvasRenderingContext2D, b: Box, resource: string, used: number, y: number, p: Palette): void {
  const x = b.x + 8, end = b.x + b.w - 8, label = 48, number = 32;
  g.font = "10px system-ui, sans-serif";
  g.fillStyle = p.faint;
  g.fillText(resource, x, y + 6, label - 6);
  g.textAlign = "right";
  g.fillText(`${Math.round(100 * used)}%`, end, y + 6);
  g.textAlign = "left";
  g.fillStyle = p.bar;
  g.fillRect(x + label, y + 3, end - number - x - label, 6);
  g.fillStyle = p.full;
  g.fillRect(x + label, y + 3, (end - number - x - label) * used, 6);
}

/** fill draws the pods of a state: running ones filled, starting ones hollow, stopping ones half filled. */
function fill(g: CanvasRenderingContext2D, b: Box, c: Cells, letter: string): void {
  const pods = b.m.pods;
  if (c.size < 2) {
    area(g, b, c, letter);
    return;
  }
  const side = c.size - Math.max(0.5, c.size / 8), state = c.size >= 5 ? letter.toLowerCase() : "r";
  for (let i = 0; i < pods.length; i++) {
    if (pods[i] !== letter) continue;
    const x = b.x + c.x + (i % c.columns) * c.size, y = b.y + c.y + Math.floor(i / c.columns) * c.size;
    if (state === "p") g.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
    else if (state === "t") g.fillRect(x, y + side / 2, side, side / 2);
    else g.fillRect(x, y, side, side);
  }
}

/** area draws pods that are too small to be drawn individually as one area, in proportion to their number, in the order of the states. */
function area(g: CanvasRenderingContext2D, b: Box, c: Cells, letter: string): void {
  const count = (s: string): number => b.m.pods.split(s).length - 1;
  let before = 0;
  for (const [s] of states) {
    if (s === letter) break;
    before += count(s);
  }
  const tall = b.h - c.y - 2, wide = b.w - c.x - 2, each = tall / Math.max(b.m.pods.length, 40);
  g.fillRect(b.x + c.x, b.y + c.y + before * each, wide, count(letter) * each);
}

function dim(g: CanvasRenderingContext2D, b: Box, c: Cells): void {
  if (c.size < 2) return;
  for (let i = 0; i < b.m.pods.length; i++) {
    if (!b.found!.has(i)) g.fillRect(b.x + c.x + (i % c.columns) * c.size, b.y + c.y + Math.floor(i / c.columns) * c.size, c.size, c.size);
  }
}

function words(g: CanvasRenderingContext2D, b: Box, scale: number, p: Palette): void {
  g.save();
  g.beginPath();
  g.rect(b.x, b.y, b.w - (goes.has(b.m.status) || waits.has(b.m.status) ? 16 : 3), b.h);
  g.clip();
  g.font = `600 ${10 * scale}px system-ui, sans-serif`;
  g.fillStyle = p.text;
  g.fillText(b.m.microVM || (b.m.name.split(".")[0] ?? ""), b.x + 6 * scale, b.y + 11 * scale);
  if (b.h >= 44 * scale) {
    g.font = `${9 * scale}px system-ui, sans-serif`;
    g.fillStyle = goes.has(b.m.status) ? p.goes : waits.has(b.m.status) ? p.waits : p.faint;
    const price = priced(b.m) ? ` ${perHour(b.m.price)}` : "";
    g.fillText((b.m.status === "Ready" ? (b.m.microVM ? "microVM" : b.m.kind.type) : b.m.status) + price, b.x + 6 * scale, b.y + 23 * scale);
  }
  g.restore();
}
