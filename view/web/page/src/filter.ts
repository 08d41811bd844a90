// The filter is that of nodeless top (view/filter.go): all words must match. A word matches anywhere in a node's
// visible texts; !word must not match; key=value and key!=value compare a field or a label.

import type { NodeRow } from "./state";

interface Word {
  key: string;
  text: string;
  not: boolean;
}

export type Filter = Word[];

export function parseFilter(text: string): Filter {
  const out: Filter = [];
  for (const s of text.split(/\s+/)) {
    const at = s.indexOf("=");
    const key = s.slice(0, Math.max(0, at));
    if (key !== "" && key !== "!") {
      const not = key.endsWith("!");
      out.push({ key: not ? key.slice(0, -1) : key, text: s.slice(at + 1), not });
      continue;
    }
    const not = s.startsWith("!");
    const word = s.slice(not ? 1 : 0).toLowerCase();
    if (word) out.push({ key: "", text: word, not });
  }
  return out;
}

/** field returns a node's field or label. */
export function field(m: NodeRow, key: string): string {
  switch (key) {
    case "node": case "name": return m.name;
    case "pool": return m.kind.pool;
    case "zone": return m.kind.zone;
    case "type": return m.kind.type;
    case "capacity": return m.kind.capacity;
    case "status": return m.status;
  }
  return Object.hasOwn(m.kind.labels, key) ? m.kind.labels[key]! : "";
}

/**
 * shows reports whether a filter shows a node. If the node does not match, pods of it that do (found) bring it back,
 * unless a word excludes the node: nearly every pod matches !word.
 */
export function shows(f: Filter, m: NodeRow, found: boolean): boolean {
  return matches(f, m) || (found && f.some((w) => !w.not) && matches(f.filter((w) => w.not), m));
}

export function matches(f: Filter, m: NodeRow): boolean {
  return f.every((w) => {
    if (w.key) return (field(m, w.key) === w.text) !== w.not;
    const hay = [m.name, m.kind.pool, m.kind.type, m.kind.capacity, m.kind.zone, m.status, m.claim, m.microVM].join("\n").toLowerCase();
    return hay.includes(w.text) !== w.not;
  });
}
