// Where each machine's box is.

import { field, matches, parseFilter } from "./filter";
import type { Choice } from "./fragment";
import { natural } from "./text";
import { share, type Machine, type World } from "./world";

export interface Box {
  m: Machine;
  x: number;
  y: number;
  found: Set<number> | null; // indices of the pods that the filter let through, if it is by them that the box is here
}

export interface Group {
  name: string;
  y: number;
  machines: number;
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
  of: number; // machines before the filter
}

export const boxWidth = 104;
export const boxHeight = 84;
export const gap = 6;
const headHeight = 26;

/** found are the pods of each Node that the server found for the filter; null while none is asked for. */
export type Found = Record<string, number[]> | null;

export function layout(w: World, c: Choice, found: Found, wide: number): Layout {
  const filter = parseFilter(c.q);
  const seen: Box[] = [];
  for (const m of w.machines.values()) {
    if (filter.length === 0 || matches(filter, m)) seen.push({ m, x: 0, y: 0, found: null });
    else if (found?.[m.name]) seen.push({ m, x: 0, y: 0, found: new Set(found[m.name]) });
  }
  order(seen, w, c);
  const width = boxWidth * c.scale, height = boxHeight * c.scale, space = Math.max(1, gap * c.scale);
  const columns = Math.max(1, Math.floor((wide - space) / (width + space)));
  const out: Layout = { boxes: seen, groups: [], columns, width, height, total: 0, of: w.machines.size };
  let y = 0, column = 0;
  let group: Group | undefined;
  for (const b of seen) {
    const name = c.group ? field(b.m, c.group) : "";
    if (c.group && (!group || group.name !== name)) {
      if (group) y += height + space;
      group = { name, y, machines: 0, price: 0, pods: 0 };
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
    if (group) {
      group.machines++;
      group.price += b.m.price;
      group.pods += b.m.pods.length;
    }
  }
  out.total = seen.length ? y + height + space : 0;
  return out;
}

function order(boxes: Box[], w: World, c: Choice): void {
  const down = c.sort.startsWith("-");
  const key = down ? c.sort.slice(1) : c.sort;
  const resource = w.resources.indexOf(key);
  const rank = (m: Machine): number => {
    if (resource >= 0) return share(m, resource);
    if (key === "age") return -m.created;
    if (key === "price") return m.price;
    if (key === "pods") return m.pods.length;
    return 0;
  };
  const groups = new Map<string, string>();
  const groupOf = (m: Machine): string => {
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
