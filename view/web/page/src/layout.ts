// Where each node's box is.

import { field, matches, parseFilter } from "./filter";
import type { Choice } from "./fragment";
import { natural } from "./text";
import { share, type NodeRow, type ClusterState } from "./state";

export interface Box {
  m: NodeRow;
  x: number;
  y: number;
  found: Set<number> | null; // indices of the pods that the filter let through, if it is by them that the box is here
  group: Group | null;
}

export interface Group {
  name: string;
  y: number;
  nodes: number;
  price: number;
  pods: number;
}

export interface Layout {
  boxes: Box[]; // in their order, so by y
  groups: Group[];
  columns: number;
  width: number; // of a box, as height
  height: number;
  total: number; // height of all
  of: number; // nodes before the filter
  byID: Map<number, Box>;
}

export const boxWidth = 104;
export const boxHeight = 84;
export const gap = 6;
const headHeight = 26;

/** found are the pods of each Node that the server found for the filter; null while none is asked for. */
export type Found = Record<string, number[]> | null;

export function layout(w: ClusterState, c: Choice, found: Found, wide: number): Layout {
  const filter = parseFilter(c.q);
  const seen: Box[] = [];
  if (wide > 0) for (const m of w.nodes.values()) { // before it is known how wide it is, nothing can be seen
    if (filter.length === 0 || matches(filter, m)) seen.push({ m, x: 0, y: 0, found: null, group: null });
    else if (found?.[m.name]) seen.push({ m, x: 0, y: 0, found: new Set(found[m.name]), group: null });
  }
  order(seen, w, c);
  const width = boxWidth * c.scale, height = boxHeight * c.scale, space = Math.max(1, gap * c.scale);
  const columns = Math.max(1, Math.floor((wide - space) / (width + space)));
  const out: Layout = { boxes: seen, groups: [], columns, width, height, total: 0, of: w.nodes.size, byID: new Map() };
  let y = 0, column = 0;
  let group: Group | undefined;
  for (const b of seen) {
    const name = c.group ? field(b.m, c.group) : "";
    if (c.group && (!group || group.name !== name)) {
      if (group) y += height + space;
      group = { name, y, nodes: 0, price: 0, pods: 0 };
      out.groups.push(group);
      y += headHeight;
      column = 0;
    } else if (column === columns) {
      y += height + space;
      column = 0;
    }
    b.x = space + column * (width + space);
    b.y = y;
    column++;
    out.byID.set(b.m.id, b);
    if (group) {
      b.group = group;
      group.nodes++;
      group.price += b.m.price;
      group.pods += b.m.pods.length;
    }
  }
  out.total = seen.length ? y + height + space : 0;
  return out;
}

/** rankOf is the number that nodes are ordered by. */
function rankOf(w: ClusterState, key: string): (m: NodeRow) => number {
  const resource = w.resources.indexOf(key);
  return (m) => {
    if (resource >= 0) return share(m, resource);
    if (key === "age") return -m.created;
    if (key === "price") return m.price;
    if (key === "pods") return m.pods.length;
    return 0;
  };
}

/** update puts nodes that changed into a layout if every box stays where it is, and gives the boxes; null if it has to be made anew. */
export function update(l: Layout, w: ClusterState, c: Choice, changed: Set<number>): Box[] | null {
  const key = c.sort.replace(/^-/, ""), rank = rankOf(w, key), filter = parseFilter(c.q);
  const out: Box[] = [];
  if (l.of !== w.nodes.size) return null;
  for (const id of changed) {
    const m = w.nodes.get(id), b = l.byID.get(id);
    if (!m) return null;
    if (!b) {
      if (matches(filter, m)) return null;
      continue; // the filter goes on hiding it
    }
    if (b.found || !matches(filter, m) || b.m.name !== m.name || rank(b.m) !== rank(m)) return null;
    if (key === "status" && b.m.status !== m.status || c.group && field(b.m, c.group) !== field(m, c.group)) return null;
    out.push(b);
  }
  for (const b of out) {
    const m = w.nodes.get(b.m.id)!;
    if (b.group) {
      b.group.price += m.price - b.m.price;
      b.group.pods += m.pods.length - b.m.pods.length;
    }
    b.m = m;
  }
  return out;
}

function order(boxes: Box[], w: ClusterState, c: Choice): void {
  const down = c.sort.startsWith("-");
  const key = down ? c.sort.slice(1) : c.sort;
  const rank = rankOf(w, key);
  const groups = new Map<string, string>();
  const groupOf = (m: NodeRow): string => {
    if (!c.group) return "";
    const name = field(m, c.group);
    let order = groups.get(name);
    if (order === undefined) groups.set(name, (order = natural(name)));
    return order;
  };
  const sign = down ? -1 : 1;
  const ranks = boxes.map((b) => ({ b, group: groupOf(b.m), number: rank(b.m), text: key === "status" ? b.m.status : "", name: b.m.order }));
  ranks.sort((a, b) =>
    compare(a.group, b.group) || sign * (a.number - b.number || compare(a.text, b.text)) || (key === "name" ? sign : 1) * compare(a.name, b.name));
  ranks.forEach((r, i) => (boxes[i] = r.b));
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** from is the index of the first box that is not above y. */
export function from(l: Layout, y: number): number {
  let low = 0, high = l.boxes.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (l.boxes[mid]!.y + l.height < y) low = mid + 1;
    else high = mid;
  }
  return low;
}

/** hit is the box at a place. */
export function hit(l: Layout, x: number, y: number): Box | undefined {
  for (let i = from(l, y); i < l.boxes.length; i++) {
    const b = l.boxes[i]!;
    if (b.y > y) return undefined;
    if (x >= b.x && x < b.x + l.width && y < b.y + l.height) return b;
  }
  return undefined;
}
