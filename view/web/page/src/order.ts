// The order of nodes, the same on the map and in the table.

import { field } from "./filter";
import { placeOf, share, type ClusterState, type NodeRow } from "./state";
import { natural } from "./text";
import { used, usedBy } from "./usage";

const numbers = new Set(["name", "age", "price", "pods"]); // and the resources, which have no text

/** rankOf returns the number that nodes are sorted by. */
export function rankOf(w: ClusterState, key: string): (m: NodeRow) => number {
  const resource = placeOf(w.resources, key);
  return (m) => {
    if (resource >= 0) return share(m, resource);
    if (key === "age") return -m.created;
    if (key === "price") return m.price;
    if (key === "pods") return m.pods.length;
    if (key.endsWith(used)) return usedBy(m, w.usage, key.slice(0, -used.length)) ?? -1;
    return 0;
  };
}

/** textOf returns the text that nodes are sorted by if it is not a number; ties are always sorted by name. */
export function textOf(m: NodeRow, key: string): string {
  if (numbers.has(key) || key.endsWith(used)) return "";
  return natural(key === "why" ? m.why[0] ?? "" : key === "claim" ? m.claim : field(m, key));
}

export const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** ordered sorts items that have a node by group, then by the key in sort; a leading "-" sorts the largest first. Ties are sorted by name. */
export function ordered<T>(list: T[], node: (x: T) => NodeRow, w: ClusterState, sort: string, group: (m: NodeRow) => string = () => ""): T[] {
  const down = sort.startsWith("-"), key = down ? sort.slice(1) : sort, sign = down ? -1 : 1, rank = rankOf(w, key);
  const ranks = list.map((x) => {
    const m = node(x);
    return { x, group: group(m), number: rank(m), text: textOf(m, key), name: m.order };
  });
  ranks.sort((a, b) =>
    compare(a.group, b.group) || sign * (a.number - b.number || compare(a.text, b.text)) || (key === "name" ? sign : 1) * compare(a.name, b.name));
  return ranks.map((r) => r.x);
}
