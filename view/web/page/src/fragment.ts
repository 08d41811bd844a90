// All choices of the user are in the address after "#", so that a link shows the same to everybody. The format,
// key=value separated by semicolons, and the names scale, q, dashboard and reload are those of kube-ops-view.

export const views = ["cluster", "nodes", "pools", "pending", "decisions", "costs", "savings", "whatif", "addresses", "hosts", "fleet"] as const;
export type View = (typeof views)[number];

export interface Choice {
  view: View;
  q: string;
  about: string; // words to find in decisions
  group: string; // pool, zone, type, capacity, status, namespace, workload, a label, or ""
  sort: string; // name, age, price, pods, status or a resource; a leading "-" sorts the largest first
  color: string; // pods, or what shades the boxes: price or a resource
  area: string; // what the area of a box is proportional to: price, a resource, or nodes for boxes of equal size
  scale: number;
  columns: string; // of the table of nodes, separated by commas; "" = those stored in this browser
  pool: string; // the selected NodePool
  host: string; // the selected microVM host
  node: string; // whose details are open
  pod: string; // namespace/name
  at: number; // milliseconds since 1970; 0 = live
  span: string; // of the timeline: the last N seconds, or FROM-TO in milliseconds since 1970; "" = everything
  dashboard: boolean;
  reload: number; // seconds; 0 = never
}

export const usual: Choice = {
  view: "cluster", q: "", about: "", group: "pool", sort: "name", color: "pods", area: "price", scale: 1, columns: "", pool: "", host: "", node: "", pod: "", at: 0, span: "", dashboard: false, reload: 0,
};

export const scales = { least: 0.2, most: 4 };

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a % that does not begin an escape
  }
}

/** parse parses the part after "#". It ignores what it does not know. */
export function parse(hash: string): Choice {
  const c: Choice = { ...usual };
  for (const part of hash.replace(/^#/, "").split(";")) {
    const [key = "", ...rest] = part.split("=");
    const value = decode(rest.join("="));
    const n = Number(value);
    switch (key) {
      case "view":
        c.view = views.find((v) => v === value) ?? "cluster";
        break;
      case "q": case "about": case "group": case "sort": case "color": case "area": case "columns": case "pool": case "host": case "node": case "pod": case "span":
        c[key] = value;
        break;
      case "scale":
        if (n > 0) c.scale = Math.min(scales.most, Math.max(scales.least, n));
        break;
      case "at": case "reload":
        if (n > 0) c[key] = n;
        break;
      case "dashboard":
        c.dashboard = value === "true";
    }
  }
  return c;
}

/** steps reports whether the browser's Back button should return from one choice to another: between screens, and out of details. */
export function steps(from: Choice, to: Choice): boolean {
  const details = (c: Choice): boolean => c.node !== "" || c.pod !== "";
  return from.view !== to.view || details(from) !== details(to) || from.pod !== to.pod;
}

/** write formats a choice for parse; defaults are omitted. */
export function write(c: Choice): string {
  const parts: string[] = [];
  for (const key of Object.keys(usual) as (keyof Choice)[]) {
    if (c[key] === usual[key]) continue;
    const value = typeof c[key] === "number" ? +(c[key] as number).toFixed(3) : c[key];
    parts.push(`${key}=${encodeURIComponent(String(value)).replace(/%2F/g, "/").replace(/%3D/g, "=").replace(/%2C/g, ",")}`);
  }
  return "#" + parts.join(";");
}
