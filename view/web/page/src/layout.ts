// The position and size of each node's box. Boxes are placed in strips, in order, and a box's area is its node's
// share of a price or a resource. Strips keep the order and move little when something changes, unlike squarified
// treemaps (Bederson et al., "Ordered and Quantum Treemaps", 2002).

import { field, matches, parseFilter, shows } from "./filter";
import type { Choice } from "./fragment";
import { t } from "./language";
import { ordered, rankOf, textOf } from "./order";
import { natural } from "./text";
import type { NodeRow, ClusterState } from "./state";

export interface Box {
  m: NodeRow;
  x: number;
  y: number;
  w: number;
  h: number; // the same for all boxes of a strip
  found: Set<number> | null; // indices of the pods that match the filter, if the box is shown only because of them
  only: number[] | null; // for a part of a node: the indices of its pods among the node's pods
  group: Group | null;
}

export interface Group {
  name: string;
  y: number;
  nodes: number;
  price: number;
  pods: number;
  requests: number[];
  allocatable: number[];
}

export interface Layout {
  boxes: Box[]; // in order, hence by y
  groups: Group[];
  cell: number; // the side of a pod's square, if there is room
  text: number; // the text's enlargement relative to scale 1
  total: number; // total height
  of: number; // nodes before the filter
  byID: Map<number, Box>;
  id: number; // unique among layouts
}

// A box of the mean area at scale 1 in a large cluster.
const boxWidth = 104;
const boxHeight = 84;
const growth = 9; // at most this many times that area, if few nodes have much room
const least = 28; // pixels, the side of a square box of the minimum area
const headHeight = 26;

let made = 0; // layouts

/** divides reports whether a grouping splits nodes among the namespaces or workloads of their pods. */
export const divides = (group: string): boolean => group === "namespace" || group === "workload";

/** Parts maps each node to its parts: of is a namespace or workload, "" for what no pod requests. Null if unknown. */
export type Parts = Record<string, { of: string; share: number; requests: number[]; pods: number[] | null }[]> | null;

/** Found maps each Node to the pods that the server found for the filter; null if it was not asked. */
export type Found = Record<string, number[]> | null;

export function layout(w: ClusterState, choice: Choice, found: Found, parts: Parts, wide: number, tall: number): Layout {
  const c = divides(choice.group) && !parts ? { ...choice, group: "" } : choice;
  const filter = parseFilter(c.q);
  let seen: Box[] = [];
  const box = (m: NodeRow, pods: number[] | null, only: number[] | null = null): Box => ({ m, x: 0, y: 0, w: 0, h: 0, found: pods && new Set(pods), only, group: null });
  if (wide > 0) for (const m of w.nodes.values()) { // nothing is visible until the width is known
    const pods = found?.[m.name];
    if (shows(filter, m, pods !== undefined)) seen.push(box(m, pods && !matches(filter, m) ? pods : null));
  }
  if (parts && divides(c.group)) seen = seen.flatMap((b) => divided(b, parts, box));
  seen = inOrder(seen, w, c);
  const natural = boxWidth * boxHeight, room = (0.75 * wide * tall) / Math.max(1, seen.length);
  const mean = Math.min(Math.max(room, natural), growth * natural) * c.scale ** 2;
  const space = Math.max(1, 6 * c.scale);
  const out: Layout = {
    boxes: seen, groups: [], cell: 11 * Math.sqrt(mean / natural), text: c.scale * Math.min(1.4, Math.max(1, Math.sqrt(mean / natural) / c.scale / 1.4)), total: 0, of: w.nodes.size, byID: new Map(seen.map((b) => [b.m.id, b])), id: ++made,
  };
  const areas = areasOf(seen, w, c, mean);
  let y = space;
  for (let i = 0; i < seen.length; ) {
    const name = c.group ? groupOf(seen[i]!.m, c.group) : "";
    let end = i + 1;
    while (end < seen.length && (!c.group || groupOf(seen[end]!.m, c.group) === name)) end++;
    if (c.group) {
      out.groups.push(gather({ name, y, nodes: 0, price: 0, pods: 0, requests: [], allocatable: [] }, seen.slice(i, end)));
      y += headHeight;
    }
    y = strips(seen, areas, i, end, wide, space, y, 0.8 * Math.sqrt(mean));
    i = end;
  }
  out.total = seen.length ? y : 0;
  return out;
}

const smallest = 0.005; // the least unrequested share of a node that gets a box

/** divided returns the boxes of a node's parts. Each looks like a node with the pods, requests and price of its part. */
function divided(b: Box, parts: NonNullable<Parts>, box: (m: NodeRow, pods: number[] | null, only: number[]) => Box): Box[] {
  return (parts[b.m.name] ?? []).filter((p) => p.of || p.share >= smallest).flatMap((p) => {
    const only = p.pods ?? [], found = b.found && only.flatMap((pod, i) => (b.found!.has(pod) ? [i] : []));
    if (found?.length === 0) return [];
    const pods = only.map((i) => b.m.pods[i] ?? "").join("");
    return [box({ ...b.m, part: { of: p.of, share: p.share }, price: b.m.price * p.share, requests: p.requests, pods }, found, only)];
  });
}

/** groupOf returns the name of the group of a node or a part of one. */
const groupOf = (m: NodeRow, group: string): string => (m.part ? m.part.of || t("requested by no pod") : field(m, group));

/** weightOf returns the quantity that the area of a box is proportional to; 0 if unknown. */
function weightOf(w: ClusterState, area: string): (m: NodeRow) => number {
  const resource = w.resources.indexOf(area);
  return (m) => (area === "price" ? m.price : (resource >= 0 ? m.allocatable[resource] ?? 0 : 1) * (m.part?.share ?? 1));
}

/** areasOf returns the boxes' areas, including the space around them, with about the given mean. A box of unknown weight has the mean area. */
function areasOf(boxes: Box[], w: ClusterState, c: Choice, mean: number): number[] {
  const weight = weightOf(w, c.area), weights = boxes.map((b) => weight(b.m)), known = weights.filter((x) => x > 0);
  const each = known.reduce((a, b) => a + b, 0) / Math.max(1, known.length);
  return weights.map((x, i) => Math.max(least ** 2, mean * (x > 0 ? x / each : boxes[i]!.m.part?.share ?? 1)));
}

/** strips places the boxes from i to end below y, in rows that fill the width, and returns the y coordinate below them. */
function strips(boxes: Box[], areas: number[], i: number, end: number, wide: number, space: number, y: number, usual: number): number {
  const width = wide - space;
  while (i < end) {
    let sum = 0, next = i, best = Infinity;
    for (; next < end; next++) { // add boxes while that makes them squarer
      const grown = sum + areas[next]!, height = grown / width;
      let ratio = 0;
      for (let j = i; j <= next; j++) ratio += Math.max(areas[j]! / height ** 2, height ** 2 / areas[j]!);
      ratio /= next - i + 1;
      if (ratio > best) break;
      best = ratio;
      sum = grown;
    }
    const height = next === end ? Math.max(sum / width, Math.min(usual, sum / least)) : sum / width; // the last row need not be full
    let x = space;
    for (; i < next; i++) {
      const b = boxes[i]!, w = areas[i]! / height;
      b.x = Math.round(x);
      b.y = Math.round(y);
      b.w = Math.max(2, Math.round(x + w - space) - b.x);
      b.h = Math.max(2, Math.round(y + height - space) - b.y);
      x += w;
    }
    y += height;
  }
  return y;
}

/** gather adds boxes to a group. */
function gather(group: Group, boxes: Box[]): Group {
  for (const b of boxes) {
    b.group = group;
    group.nodes++;
    count(group, b.m, 1);
  }
  return group;
}

/** count adds a node's figures to its group, or subtracts them. */
function count(group: Group, m: NodeRow, sign: number): void {
  group.price += sign * m.price;
  group.pods += sign * m.pods.length;
  m.requests.forEach((x, i) => (group.requests[i] = (group.requests[i] ?? 0) + sign * x));
  m.allocatable.forEach((x, i) => (group.allocatable[i] = (group.allocatable[i] ?? 0) + sign * x));
}

/** update updates changed nodes in a layout if no box moves, and returns their boxes; null if a new layout is needed. */
export function update(l: Layout, w: ClusterState, c: Choice, changed: Set<number>): Box[] | null {
  const key = c.sort.replace(/^-/, ""), rank = rankOf(w, key), weight = weightOf(w, c.area), filter = parseFilter(c.q);
  const out: Box[] = [];
  if (l.of !== w.nodes.size || divides(c.group)) return null;
  for (const id of changed) {
    const m = w.nodes.get(id), b = l.byID.get(id);
    if (!m) return null;
    if (!b) {
      if (matches(filter, m)) return null;
      continue; // the filter still hides it
    }
    if (b.found || !matches(filter, m) || b.m.name !== m.name || rank(b.m) !== rank(m) || weight(b.m) !== weight(m)) return null;
    if (textOf(b.m, key) !== textOf(m, key) || c.group && field(b.m, c.group) !== field(m, c.group)) return null;
    out.push(b);
  }
  for (const b of out) {
    const m = w.nodes.get(b.m.id)!;
    if (b.group) {
      count(b.group, b.m, -1);
      count(b.group, m, 1);
    }
    b.m = m;
  }
  return out;
}

const last = "\uffff"; // sorts after every name

/** inOrder sorts boxes by the name of their group, then in the chosen order. */
function inOrder(boxes: Box[], w: ClusterState, c: Choice): Box[] {
  const groups = new Map<string, string>();
  return ordered(boxes, (b) => b.m, w, c.sort, (m) => {
    if (!c.group) return "";
    const name = groupOf(m, c.group);
    let order = groups.get(name);
    if (order === undefined) groups.set(name, (order = m.part?.of === "" ? last : natural(name)));
    return order;
  });
}

/** from returns the index of the first box that is not above y. */
export function from(l: Layout, y: number): number {
  let low = 0, high = l.boxes.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (l.boxes[mid]!.y + l.boxes[mid]!.h < y) low = mid + 1;
    else high = mid;
  }
  return low;
}

/** hit returns the box at a position. */
export function hit(l: Layout, x: number, y: number): Box | undefined {
  for (let i = from(l, y); i < l.boxes.length; i++) {
    const b = l.boxes[i]!;
    if (b.y > y) return undefined;
    if (x >= b.x && x < b.x + b.w && y < b.y + b.h) return b;
  }
  return undefined;
}

/** beside returns the index of the box that an up or down arrow key leads to: the nearest box in the row above or below. */
export function beside(l: Layout, at: number, key: string): number {
  const b = l.boxes[at]!, sign = key === "ArrowUp" ? -1 : 1;
  let best = at, away = Infinity, row = b.y;
  for (let i = at + sign; i >= 0 && i < l.boxes.length; i += sign) {
    const other = l.boxes[i]!;
    if (other.y === b.y) continue;
    if (row === b.y) row = other.y;
    if (other.y !== row) break;
    const d = Math.abs(other.x + other.w / 2 - b.x - b.w / 2);
    if (d < away) [best, away] = [i, d];
  }
  return best;
}
