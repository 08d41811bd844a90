// The columns of the table of nodes: how each is shown, and how it is written to a file.

import type { ComponentChildren } from "preact";
import { t } from "./language";
import { extra, priced, share, type ClusterState, type NodeRow } from "./state";
import type { Titled } from "./table";
import { age, amount, perHour } from "./text";
import { inUse, measured, used, usedBy } from "./usage";

export interface Column extends Titled {
  width: number; // rem
  show: (m: NodeRow, w: ClusterState) => ComponentChildren;
  heads?: string[]; // column names in the file; by default the key
  values: (m: NodeRow, w: ClusterState) => (string | number)[];
}

const text = (key: string, title: string, width: number, of: (m: NodeRow) => string): Column => ({
  key, title, width, show: (m) => of(m) || "-", values: (m) => [of(m)],
});

const arch = "kubernetes.io/arch";

/** columnsOf returns all columns; the first is always shown. */
export function columnsOf(resources: string[]): Column[] {
  return [
    text("name", "Name", 17, (m) => m.name),
    { key: "status", title: "Status", width: 7.5, show: (m) => <State status={m.status} />, values: (m) => [m.status] },
    text("pool", "Pool", 8, (m) => m.kind.pool),
    text("type", "Type", 8.5, (m) => m.kind.type),
    text("capacity", "Capacity", 7, (m) => m.kind.capacity),
    text("zone", "Zone", 7.2, (m) => m.kind.zone),
    {
      key: "price", title: "$ an hour", width: 7.2, number: true, heads: ["dollars_per_hour"],
      show: (m) => (priced(m) ? perHour(m.price) : <span class="faint">{t("not known")}</span>), values: (m) => [priced(m) ? m.price / 1e6 : ""],
    },
    ...resources.map((name, i): Column => ({
      key: name, title: name === "cpu" ? "CPU" : name[0]!.toUpperCase() + name.slice(1), width: name === "cpu" ? 10 : 10.2,
      show: (m, w) => <Use resource={name} used={m.requests[i] ?? 0} of={m.allocatable[i] ?? 0} part={share(m, i)} measured={usedBy(m, w.usage, name)} />,
      heads: [`${name}_requested`, `${name}_allocatable`], values: (m) => [m.requests, m.allocatable].map((a) => plain(name, a[i] ?? 0)),
    })),
    { key: "pods", title: "Pods", width: 3.6, number: true, show: (m) => m.pods.length, values: (m) => [m.pods.length] },
    {
      key: "age", title: "Age", width: 4.4, number: true, heads: ["created"],
      show: (m, w) => age(w.now / 1000, m.created), values: (m) => [m.created ? new Date(m.created * 1000).toISOString() : ""],
    },
    { key: "why", title: "Why", width: 11, show: (m) => <span title={m.why.map(t).join("; ")}>{m.why.map(t).join("; ")}</span>, values: (m) => [m.why.join("; ")] },
    ...extra.map((name, i): Column => {
      const at = resources.length + i;
      return {
        key: name, title: name === "gpu" ? "GPU" : "Addresses", width: 9,
        show: (m) => (m.allocatable[at] ? <Use resource={name} used={m.requests[at] ?? 0} of={m.allocatable[at]} part={share(m, at)} /> : "-"),
        heads: name === "gpu" ? ["gpus_requested", "gpus_allocatable"] : ["addresses_in_use", "addresses"], values: (m) => [m.requests, m.allocatable].map((a) => a[at] ?? 0),
      };
    }),
    text("claim", "NodeClaim", 10, (m) => m.claim),
    { ...text(arch, "Arch", 5, (m) => m.kind.labels[arch] ?? ""), heads: ["arch"] },
    ...measured.filter((r) => resources.includes(r)).map((r): Column => ({
      key: r + used, title: r === "cpu" ? "CPU used" : "Memory used", width: 7, number: true,
      show: (m, w) => either(usedBy(m, w.usage, r), (n) => inUse(r, n)) ?? <span class="faint">{t("not known")}</span>,
      values: (m, w) => [either(usedBy(m, w.usage, r), (n) => plain(r, n)) ?? ""],
    })),
  ];
}

const either = <T,>(n: number | undefined, of: (n: number) => T): T | undefined => (n === undefined ? n : of(n));

export const usualColumns = (all: Column[]): string[] => all.map((c) => c.key).filter((key) => key !== "claim" && key !== arch && !extra.includes(key) && !key.endsWith(used));

/** plain returns an amount for a file: cores, bytes or a count. */
const plain = (resource: string, n: number): number => (resource === "cpu" ? n / 1000 : n);

/** Use shows the requested share of the allocatable amount, as a bar and in numbers; a line across the bar marks the measured usage. */
export function Use({ resource, used, of, part, label, measured }: { resource: string; used: number; of: number; part: number; label?: string; measured?: number }) {
  return (
    <span class="use" title={either(measured, (n) => t(`${inUse(resource, n)} used`))}>
      {label && <small>{label}</small>}
      <span class="bar">
        <span style={{ width: Math.min(100, 100 * part) + "%" }} />
        {measured !== undefined && of > 0 && <i style={{ left: Math.min(100, (100 * measured) / of) + "%" }} />}
      </span>
      <span>{amount(resource, used)} / {amount(resource, of)}</span>
    </span>
  );
}

const shapes: Record<string, [string, string]> = {
  Ready: ["●", "good"], Drifted: ["◇", ""], Cordoned: ["■", ""], NotReady: ["▲", "waits"], Launching: ["▲", "waits"], Launched: ["▲", "waits"], Registered: ["▲", "waits"],
  Starting: ["▲", "waits"], Unschedulable: ["■", ""],
  Deleting: ["✕", "bad"], Interrupted: ["✕", "bad"], Disrupted: ["✕", "bad"],
};

/** State shows a status as a word after a shape. */
export function State({ status }: { status: string }) {
  const [shape, kind] = shapes[status] ?? ["?", ""];
  return <span class="state"><span class={kind} aria-hidden="true">{shape}</span> {status}</span>;
}
