import { t } from "./language";
import { age, amount, perHour, plural, span } from "./text";
import { planOf } from "./moves";
import { extra, gauges, priced, share, titleOf, type NodeRow, type ClusterState } from "./state";
import { inUse, usedBy } from "./usage";

/** lines describes a node as pairs of a name and a text. */
export function lines(m: NodeRow, w: ClusterState): [string, string][] {
  const now = w.now / 1000;
  const out: [string, string][] = [[t("status"), m.since ? t(`${m.status} for ${age(now, m.since)}`) : m.status]];
  for (const text of m.why) out.push([t("why"), t(text)]);
  const plan = planOf(m, w);
  if (plan) out.push([t("plan"), plan]);
  if (m.microVM) out.push([t("microVM of"), m.microVM]);
  out.push([t("type"), [m.kind.type, m.kind.capacity, m.kind.zone].filter(Boolean).join(" · ") || "-"]);
  out.push([t("price"), t(priced(m) ? `${perHour(m.price)} an hour` : "not known")]);
  out.push([t("pool"), m.kind.pool || t("(none)")]);
  w.resources.forEach((r, i) => {
    const used = usedBy(m, w.usage, r);
    out.push([r, t(`${amount(r, m.requests[i] ?? 0)} of ${amount(r, m.allocatable[i] ?? 0)} requested, ${(100 * share(m, i)).toFixed(0)}%`) + (used === undefined ? "" : ", " + t(`${inUse(r, used)} used`))]);
  });
  for (const { name, at } of gauges(m, w.resources)) {
    if (extra.includes(name)) out.push([titleOf(name), t(`${m.requests[at] ?? 0} of ${m.allocatable[at]} ${name === "gpu" ? "requested" : "in use"}, ${(100 * share(m, at)).toFixed(0)}%`)]);
  }
  out.push([t("pods"), String(m.pods.length)]);
  const expected = whenReady(m, w);
  if (expected) out.push([t("expected"), expected]);
  out.push([t("age"), age(now, m.created) + (m.readyIn ? ", " + t(`ready in ${m.readyIn}s`) : "")]);
  if (m.claim) out.push([t("claim"), m.claim]);
  return out;
}

const comes = new Set(["Launching", "Launched", "Registered"]);

/** whenReady estimates when a launching node will be ready, from the median of the nodes of its pool; "" for other nodes. */
function whenReady(m: NodeRow, w: ClusterState): string {
  if (!comes.has(m.status)) return "";
  const took = [...w.nodes.values()].filter((o) => o.readyIn > 0 && o.kind.pool === m.kind.pool).map((o) => o.readyIn).sort((a, b) => a - b);
  const usual = took[took.length >> 1];
  if (!usual) return "";
  const left = m.created + usual - w.now / 1000;
  return t(left > 0 ? `ready in about ${span(left)}: others took ${span(usual)}` : `later than usual: others took ${span(usual)}`);
}

/** inWords describes a node for a screen reader. */
export function inWords(m: NodeRow, w: ClusterState): string {
  return `${m.name}: ${m.status}, ${plural(m.pods.length, "pod")}. ` + lines(m, w).slice(1).map(([name, text]) => `${name} ${text}`).join(". ");
}
