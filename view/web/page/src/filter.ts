// The filter is that of nodeless top (view/filter.go): all words must hold. A word is found anywhere in what a node shows;
// !word must not be found; key=value and key!=value compare a field or a label.

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

/** field is a node's field or label. */
export function field(m: NodeRow, key: string): string {
  switch (key) {
    case "node": case "name": return m.name;
    case "pool": return m.kind.pool;
    case "zone": return m.kind.zone;
    case "type": return m.kind.type;
    case "capacity": return m.kind.capacity;
    case "status": return m.status;
  }
  return m.kind.labels[key] ?? "";
}

export function matches(f: Filter, m: NodeRow): boolean {
  return f.every((w) => {
    if (w.key) return (field(m, w.key) === w.text) !== w.not;
    const hay = [m.name, m.kind.pool, m.kind.type, m.kind.capacity, m.kind.zone, m.status, m.claim, m.microVM].join("\n").toLowerCase();
    return hay.includes(w.text) !== w.not;
  });
}
