// The order of nodes, the same on the map and in the table.

import { field } from "./filter";
import { share, type ClusterState, type NodeRow } from "./state";
import { natural } from "./text";

const numbers = new Set(["name", "age", "price", "pods"]); // and the resources, of which there are no texts

/** rankOf is the number that nodes are ordered by. */
export function rankOf(w: ClusterState, key: string): (m: NodeRow) => number {
  const resource = w.resources.indexOf(key);
  return (m) => {
    if (resource >= 0) return share(m, resource);
    if (key === "age") return -m.created;
    if (key === "price") return m.price;
    if (key === "pods") return m.pods.length;
    return 0;
  };
}

/** textOf is the text that nodes are ordered by where it is no number; their name comes last in any case. */
export function textOf(m: NodeRow, key: string): string {
  if (numbers.has(key)) return "";
  return natural(key === "why" ? m.why[0] ?? "" : key === "claim" ? m.claim : field(m, key));
}

export const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** ordered sorts whatever has a node by group, then as sort says: a key, with "-" before it for the largest first. Equal ones are by name. */
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
