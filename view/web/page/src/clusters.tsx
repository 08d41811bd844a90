// The clusters of a kubeconfig: choosing one, and what each costs.

import { t } from "./language";
import { useAnswer, useOnce } from "./news";
import { base } from "./source";
import type { Totals } from "./state";
import { money, perHour, perMonth, plural } from "./text";

export interface Clusters {
  here: string; // the context of the server's own page
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

/** useClusters returns the clusters to choose from; null if there is only one. */
export function useClusters(): Clusters | null {
  const a = useOnce<Omit<Clusters, "shown">>("/api/clusters", true);
  if (!a || typeof a === "string" || a.names.length < 2) return null;
  return { ...a, shown: base ? decodeURIComponent(base.split("/")[2]!) : a.here };
}

/** pageOf returns the address of another cluster's page, on the same screen. */
export const pageOf = (c: Clusters, name: string, view: string): string =>
  (name === c.here ? "/" : `/clusters/${encodeURIComponent(name)}/`) + (view === "cluster" ? "" : `#view=${view}`);

/** Switch chooses a cluster. */
export function Switch({ clusters, view }: { clusters: Clusters; view: string }) {
  return (
    <select class="switch" aria-label={t("Cluster")} value={clusters.shown} onChange={(e) => location.assign(pageOf(clusters, e.currentTarget.value, view))}>
      {clusters.names.map((name) => <option key={name} value={name}>{name}</option>)}
    </select>
  );
}

export function Fleet({ clusters }: { clusters: Clusters | null }) {
  return (
    <main class="screen">
      <h2>{t("Fleet")}</h2>
      {clusters ? <Live clusters={clusters} /> : <p role="status">{t("This page shows one cluster. nodeless web shows all contexts of a kubeconfig.")}</p>}
    </main>
  );
}

function Live({ clusters }: { clusters: Clusters }) {
  const a = useAnswer<Sums[]>("/api/clusters/sums", again);
  if (a === null) return <p role="status">{t(`Reading ${plural(clusters.names.length, "cluster")}…`)}</p>;
  if (typeof a === "string") return <p class="bad" role="alert">{a}</p>;
  const known = a.filter((s) => s.known);
  const sum = (of: (s: Sums) => number): number => known.reduce((n, s) => n + of(s), 0);
  const price = sum((s) => s.totals.price), unpriced = sum((s) => s.totals.unpriced);
  return (
    <>
      <p class="sum" role="status">
        <strong>{t(`${perHour(price)}/h · ${perMonth(price)}/month`)}</strong> {t(`for ${plural(sum((s) => s.totals.nodes), "node")} of ${plural(known.length, "cluster")}`)}
        {unpriced > 0 && ", " + t(`${unpriced} without a price`)}
        {known.length < a.length && "; " + t(`${a.length - known.length} not read`)}
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label={t("Clusters")}>
        <table class="list">
          <thead>
            <tr>
              <th scope="col">{t("Context")}</th>
              {titles.map((title) => <th scope="col" key={title}>{t(title)}</th>)}
              <th scope="col">{t("Problem")}</th>
            </tr>
          </thead>
          <tbody>{a.map((s) => <Row key={s.name} s={s} clusters={clusters} />)}</tbody>
        </table>
      </div>
    </>
  );
}

function Row({ s, clusters }: { s: Sums; clusters: Clusters }) {
  const all = s.totals;
  const unknown = all.price === 0 && all.unpriced > 0;
  const prices = unknown ? [t("not known"), t("not known")] : [perHour(all.price), perMonth(all.price)];
  const figures = s.known
    ? [...prices, all.nodes, all.running, all.waiting, s.saved ? money(s.saved.dollars) : t("not known"), s.saved ? money(s.saved.dollarsPerHour) : t("not known")]
    : titles.map(() => "–");
  return (
    <tr>
      <th scope="row"><a href={pageOf(clusters, s.name, "cluster")} aria-current={s.name === clusters.shown ? "page" : undefined}>{s.name}</a></th>
      {figures.map((f, i) => <td key={i} data-title={t(titles[i]!)}>{f}</td>)}
      <td>{s.problem ? <span class="bad">✗ {t(s.problem)}</span> : s.known ? "" : t("being read")}</td>
    </tr>
  );
}
