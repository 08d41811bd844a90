import { age, amount, perHour, plural } from "./text";
import { planOf } from "./moves";
import { share, type NodeRow, type ClusterState } from "./state";

/** lines are what there is to say of a node, a name and a text each. */
export function lines(m: NodeRow, w: ClusterState): [string, string][] {
  const now = w.at / 1000;
  const out: [string, string][] = [["status", m.status + (m.since ? ` for ${age(now, m.since)}` : "")]];
  for (const text of m.why) out.push(["why", text]);
  const plan = planOf(m, w);
  if (plan) out.push(["plan", plan]);
  if (m.microVM) out.push(["microVM of", m.microVM]);
  out.push(["type", [m.kind.type, m.kind.capacity, m.kind.zone].filter(Boolean).join(" · ") || "-"]);
  out.push(["price", m.price ? `${perHour(m.price)} an hour` : "not known"]);
  out.push(["pool", m.kind.pool || "(none)"]);
  w.resources.forEach((r, i) => {
    out.push([r, `${amount(r, m.requests[i] ?? 0)} of ${amount(r, m.allocatable[i] ?? 0)} requested, ${(100 * share(m, i)).toFixed(0)}%`]);
  });
  out.push(["pods", String(m.pods.length)]);
  out.push(["age", age(now, m.created) + (m.readyIn ? `, ready in ${m.readyIn}s` : "")]);
  if (m.claim) out.push(["claim", m.claim]);
  return out;
}

/** inWords is a node for a screen reader. */
export function inWords(m: NodeRow, w: ClusterState): string {
  return `${m.name}: ${m.status}, ${plural(m.pods.length, "pod")}. ` + lines(m, w).slice(1).map(([name, text]) => `${name} ${text}`).join(". ");
}
