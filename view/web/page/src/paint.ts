// Draws the boxes that are seen. A pod is a square; where squares would be smaller than 2 pixels they become one area per state.

import type { Choice } from "./fragment";
import { from, type Box, type Group, type Layout } from "./layout";
import { perHour, plural } from "./text";
import { share, type ClusterState } from "./state";

/** Palette are the colours of the page's style, as its theme has them. */
export type Palette = Record<
  "text" | "faint" | "box" | "edge" | "chosen" | "running" | "starting" | "stopping" | "system" | "dim" | "bar" | "full" | "waits" | "goes" | "shade", string>;

const names: (keyof Palette)[] = [
  "text", "faint", "box", "edge", "chosen", "running", "starting", "stopping", "system", "dim", "bar", "full", "waits", "goes", "shade",
];

export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(names.map((n) => [n, style.getPropertyValue("--" + n).trim()])) as Palette;
}

const goes = new Set(["Deleting", "Interrupted", "Disrupted"]);
const waits = new Set(["Launching", "Launched", "Registered", "NotReady"]);

/** Cells is the grid in which a box has its pods. */
export interface Cells {
  x: number; // within the box
  y: number;
  columns: number;
  size: number; // of a cell with its gap; below 2 cells are not drawn one by one
}

export function cells(l: Layout, scale: number, pods: number): Cells {
  const x = 18 * scale, y = 32 * scale, width = l.width - x - 4 * scale, height = l.height - y - 4 * scale;
  let size = Math.min(11 * scale, width, height);
  const fits = (s: number): boolean => Math.floor(width / s) * Math.floor(height / s) >= pods;
  while (size >= 2 && !fits(size)) size -= size > 6 ? 1 : 0.5;
  return { x, y, columns: Math.max(1, Math.floor(width / Math.max(size, 0.1))), size };
}

/** cellAt is the index of the pod at a place in a box; -1 if there is none. */
export function cellAt(l: Layout, b: Box, scale: number, x: number, y: number): number {
  const c = cells(l, scale, b.m.pods.length);
  const column = Math.floor((x - b.x - c.x) / c.size), row = Math.floor((y - b.y - c.y) / c.size);
  const i = row * c.columns + column;
  return c.size >= 2 && column >= 0 && column < c.columns && row >= 0 && i < b.m.pods.length ? i : -1;
}

const states: [string, keyof Palette][] = [["r", "running"], ["R", "system"], ["p", "starting"], ["P", "starting"], ["t", "stopping"], ["T", "stopping"]];

/** paint draws what is between top and top+tall. */
export function paint(g: CanvasRenderingContext2D, l: Layout, w: ClusterState, c: Choice, p: Palette, chosen: number, most: number, top: number, wide: number, tall: number): void {
  g.clearRect(0, 0, wide, tall);
  g.save();
  g.translate(0, -top);
  g.textBaseline = "middle";
  for (const group of l.groups) if (group.y > top - 30 && group.y < top + tall) head(g, group, p);
  const seen: Box[] = [];
  for (let i = from(l, top); i < l.boxes.length && l.boxes[i]!.y < top + tall; i++) seen.push(l.boxes[i]!);
  boxes(g, seen, l, w, c, p, chosen, most);
  g.restore();
}

/** repaint draws some boxes anew, and the heads of their groups, within what is between top and top+tall. */
export function repaint(g: CanvasRenderingContext2D, some: Box[], l: Layout, w: ClusterState, c: Choice, p: Palette, chosen: number, most: number, top: number, wide: number, tall: number): void {
  const seen = some.filter((b) => b.y + l.height >= top && b.y < top + tall);
  const groups = new Set(some.map((b) => b.group).filter((x) => x && x.y > top - 30 && x.y < top + tall));
  if (seen.length + groups.size === 0) return;
  g.save();
  g.translate(0, -top);
  g.textBaseline = "middle";
  for (const group of groups) {
    g.clearRect(0, group!.y, wide, 26);
    head(g, group!, p);
  }
  for (const b of seen) g.clearRect(b.x, b.y, l.width, l.height);
  boxes(g, seen, l, w, c, p, chosen, most);
  g.restore();
}

/** mostPaid is the price that shades are a part of; 0 if boxes are not shaded by price. */
export function mostPaid(l: Layout, c: Choice): number {
  let most = 0;
  if (c.color === "price") for (const b of l.boxes) most = Math.max(most, b.m.price);
  return most;
}

function boxes(g: CanvasRenderingContext2D, seen: Box[], l: Layout, w: ClusterState, c: Choice, p: Palette, chosen: number, most: number): void {
  for (const b of seen) frame(g, b, l, w, c, p, b.m.id === chosen, most);
  for (const [letter, color] of states) {
    g.fillStyle = p[color];
    for (const b of seen) if (b.m.pods.includes(letter)) fill(g, b, l, c.scale, letter);
  }
  g.fillStyle = p.dim;
  for (const b of seen) if (b.found) dim(g, b, l, c.scale);
  if (c.scale * 9 >= 6) for (const b of seen) words(g, b, l, c.scale, p);
}

function head(g: CanvasRenderingContext2D, group: Group, p: Palette): void {
  g.font = "600 13px system-ui, sans-serif";
  g.fillStyle = p.text;
  const price = group.price ? ` · ${perHour(group.price)}/h` : "";
  g.fillText(`${group.name || "(none)"} · ${plural(group.nodes, "node")} · ${plural(group.pods, "pod")}${price}`, 8, group.y + 14);
}

function frame(g: CanvasRenderingContext2D, b: Box, l: Layout, w: ClusterState, c: Choice, p: Palette, chosen: boolean, most: number): void {
  g.fillStyle = p.box;
  g.fillRect(b.x, b.y, l.width, l.height);
  const resource = w.resources.indexOf(c.color);
  const strength = resource >= 0 ? Math.min(1, share(b.m, resource)) : most > 0 ? b.m.price / most : 0;
  if (strength > 0) {
    g.globalAlpha = 0.75 * strength;
    g.fillStyle = p.shade;
    g.fillRect(b.x, b.y, l.width, l.height);
    g.globalAlpha = 1;
  }
  g.lineWidth = chosen ? 3 : 1;
  g.strokeStyle = chosen ? p.chosen : goes.has(b.m.status) ? p.goes : waits.has(b.m.status) ? p.waits : p.edge;
  if (!b.m.hasNode) g.setLineDash([4, 3]);
  g.strokeRect(b.x + 0.5, b.y + 0.5, l.width - 1, l.height - 1);
  if (!b.m.hasNode) g.setLineDash([]);
  if (b.m.microVM && c.scale > 0.4) {
    g.lineWidth = 1;
    g.strokeRect(b.x + 3.5, b.y + 3.5, l.width - 7, l.height - 7);
  }
  const tall = l.height - 36 * c.scale, wide = Math.max(1, 4 * c.scale);
  for (let i = 0; i < Math.min(2, w.resources.length); i++) {
    const x = b.x + (4 + 6.5 * i) * c.scale, y = b.y + 32 * c.scale, used = Math.min(1, share(b.m, i));
    g.fillStyle = p.bar;
    g.fillRect(x, y, wide, tall);
    g.fillStyle = p.full;
    g.fillRect(x, y + tall * (1 - used), wide, tall * used);
  }
}

function fill(g: CanvasRenderingContext2D, b: Box, l: Layout, scale: number, letter: string): void {
  const c = cells(l, scale, b.m.pods.length), pods = b.m.pods;
  if (c.size < 2) {
    area(g, b, l, c, letter);
    return;
  }
  const side = c.size - Math.max(0.5, c.size / 8);
  for (let i = 0; i < pods.length; i++) {
    if (pods[i] !== letter) continue;
    g.fillRect(b.x + c.x + (i % c.columns) * c.size, b.y + c.y + Math.floor(i / c.columns) * c.size, side, side);
  }
}

/** area stands for pods that are too small to be drawn: as much of the box as their share, in the order of the states. */
function area(g: CanvasRenderingContext2D, b: Box, l: Layout, c: Cells, letter: string): void {
  const count = (s: string): number => b.m.pods.split(s).length - 1;
  let before = 0;
  for (const [s] of states) {
    if (s === letter) break;
    before += count(s);
  }
  const tall = l.height - c.y - 2, wide = l.width - c.x - 2, each = tall / Math.max(b.m.pods.length, 40);
  g.fillRect(b.x + c.x, b.y + c.y + before * each, wide, count(letter) * each);
}

function dim(g: CanvasRenderingContext2D, b: Box, l: Layout, scale: number): void {
  const c = cells(l, scale, b.m.pods.length);
  if (c.size < 2) return;
  for (let i = 0; i < b.m.pods.length; i++) {
    if (!b.found!.has(i)) g.fillRect(b.x + c.x + (i % c.columns) * c.size, b.y + c.y + Math.floor(i / c.columns) * c.size, c.size, c.size);
  }
}

function words(g: CanvasRenderingContext2D, b: Box, l: Layout, scale: number, p: Palette): void {
  g.save();
  g.beginPath();
  g.rect(b.x, b.y, l.width - 3, l.height);
  g.clip();
  g.font = `600 ${10 * scale}px system-ui, sans-serif`;
  g.fillStyle = p.text;
  g.fillText(b.m.microVM || (b.m.name.split(".")[0] ?? ""), b.x + 5 * scale, b.y + 10 * scale);
  g.font = `${9 * scale}px system-ui, sans-serif`;
  const ready = b.m.status === "Ready";
  g.fillStyle = goes.has(b.m.status) ? p.goes : waits.has(b.m.status) ? p.waits : p.faint;
  const price = b.m.price ? ` ${perHour(b.m.price)}` : "";
  g.fillText((ready ? (b.m.microVM ? "microVM" : b.m.kind.type) : b.m.status) + price, b.x + 5 * scale, b.y + 23 * scale);
  g.restore();
}
