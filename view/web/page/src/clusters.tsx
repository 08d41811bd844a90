// The clusters of a kubeconfig: which the page shows, and what each costs.

import { useAnswer, useOnce } from "./news";
import { base } from "./source";
import type { Totals } from "./state";
import { perHour, perMonth, plural } from "./text";

export interface Clusters {
  here: string; // the context of the page that was opened
  names: string[];
  shown: string; // the context of this page
}

interface Sums {
  name: string;
  known: boolean;
  problem?: string;
  totals: Totals;
  saved?: { dollars: number; dollarsPerHour: number };
}

const titles = ["$ an hour", "$ a month", "Nodes", "Pods running", "Pending", "Saved", "Saves an hour"];
const again = 5_000; // milliseconds
const dollars = (n: number): string => (n < 0 ? "−$" : "$") + Math.abs(n).toFixed(4);

/** useClusters are the clusters among which one can choose; null for one alone. */
export function useClusters(): Clusters | null {
  const a = useOnce<Omit<Clusters, "shown">>("/api/clusters", true);
  if (!a || typeof a === "string" || a.names.length < 2) return null;
  return { ...a, shown: base ? decodeURIComponent(base.split("/")[2]!) : a.here };
}

/** pageOf is the address of another cluster's page, on the screen that is open. */
export const pageOf = (c: Clusters, name: string, view: string): string =>
  (name === c.here ? "/" : `/clusters/${encodeURIComponent(name)}/`) + (view === "cluster" ? "" : `#view=${view}`);

/** Switch chooses a cluster. */
export function Switch({ clusters, view }: { clusters: Clusters; view: string }) {
  return (
    <select class="switch" aria-label="Cluster" value={clusters.shown} onChange={(e) => location.assign(pageOf(clusters, e.currentTarget.value, view))}>
      {clusters.names.map((name) => <option key={name} value={name}>{name}</option>)}
    </select>
  );
}

export function Fleet({ clusters }: { clusters: Clusters | null }) {
  return (
    <main class="screen">
      <h2>Fleet</h2>
      {clusters ? <Live clusters={clusters} /> : <p role="status">This page shows one cluster. nodeless web shows all contexts of a kubeconfig.</p>}
    </main>
  );
}

function Live({ clusters }: { clusters: Clusters }) {
  const a = useAnswer<Sums[]>("/api/clusters/sums", again);
  if (a === null) return <p role="status">Reading {plural(clusters.names.length, "cluster")}…</p>;
  if (typeof a === "string") return <p class="bad" role="alert">{a}</p>;
  const known = a.filter((s) => s.known);
  const sum = (of: (s: Sums) => number): number => known.reduce((n, s) => n + of(s), 0);
  const price = sum((s) => s.totals.price);
  return (
    <>
      <p class="sum" role="status">
        <strong>{perHour(price)}/h · {perMonth(price)}/month</strong> for {plural(sum((s) => s.totals.nodes), "node")} of {plural(known.length, "cluster")}
        {known.length < a.length && `; ${a.length - known.length} not read`}
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Clusters">
        <table class="list">
          <thead>
            <tr>
              <th scope="col">Context</th>
              {titles.map((t) => <th scope="col" key={t}>{t}</th>)}
              <th scope="col">Problem</th>
            </tr>
          </thead>
          <tbody>{a.map((s) => <Row key={s.name} s={s} clusters={clusters} />)}</tbody>
        </table>
      </div>
    </>
  );
}

function Row({ s, clusters }: { s: Sums; clusters: Clusters }) {
  const t = s.totals;
  const figures = s.known
    ? [perHour(t.price), perMonth(t.price), t.nodes, t.running, t.waiting, s.saved ? dollars(s.saved.dollars) : "not known", s.saved ? dollars(s.saved.dollarsPerHour) : "not known"]
    : titles.map(() => "–");
  return (
    <tr>
      <th scope="row"><a href={pageOf(clusters, s.name, "cluster")} aria-current={s.name === clusters.shown ? "page" : undefined}>{s.name}</a></th>
      {figures.map((f, i) => <td key={i} data-title={titles[i]}>{f}</td>)}
      <td>{s.problem ? <span class="bad">✗ {s.problem}</span> : s.known ? "" : "being read"}</td>
    </tr>
  );
}
