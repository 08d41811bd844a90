// What namespaces or workloads cost now: their pods' share of the prices of their nodes.

import { csv, save } from "./csv";
import { usual, type Choice } from "./fragment";
import { t } from "./language";
import { useAnswer } from "./news";
import { Order, Short, type Field } from "./table";
import { amount, perHour, perMonth } from "./text";

interface Cost {
  kind?: string; // of a workload
  namespace: string; // "" = what no pod requests
  name?: string;
  pods: number;
  price: number;
  unpriced?: number; // of its pods, those on nodes of unknown price
  requests: number[];
}

interface Answer {
  of: number;
  price: number; // of all, not only of those listed
  costs: Cost[];
}

interface Props {
  resources: string[];
  choice: Choice;
  choose: (change: Partial<Choice>) => void;
  past: boolean;
  narrow: boolean;
}

const again = 10_000; // milliseconds between two requests

export function Costs({ past, ...props }: Props) {
  return (
    <main class="screen">
      <h2>{t("Costs")}</h2>
      {past ? <p role="status">{t("Costs are shown live only.")}</p> : <Live {...props} />}
    </main>
  );
}

function Live({ resources, choice, choose, narrow }: Omit<Props, "past">) {
  const workloads = choice.group === "workload";
  const a = useAnswer<Answer>(`/api/costs?by=${workloads ? "workload" : "namespace"}`, again);
  if (a === null) return <p role="status">{t("Adding up…")}</p>;
  if (typeof a === "string") return <p class="bad" role="alert">{a}</p>;
  const sort = choice.sort === usual.sort ? "-price" : choice.sort;
  const title = t(workloads ? "Costs by workload" : "Costs by namespace"), columns = fields(workloads ? "Workload" : "Namespace", resources, a.price, choose), cut = a.of > a.costs.length;
  return (
    <>
      <p class="row">
        <label>
          <span>{t("By")}</span>{" "}
          <select value={workloads ? "workload" : "namespace"} onChange={(e) => choose({ group: e.currentTarget.value })}>
            {["namespace", "workload"].map((by) => <option key={by} value={by}>{t(by)}</option>)}
          </select>
        </label>
        {narrow && <Order columns={columns} sort={sort} choose={choose} />}
        <button type="button" onClick={() => download(a.costs, resources)}>{t("Save as CSV")}</button>
        {cut && <span class="faint">{t(`The file has only the ${a.costs.length} most expensive.`)}</span>}
      </p>
      <h3>{title}</h3>
      <Short title={title} rows={a.costs} columns={columns} sort={sort} choose={choose} narrow={narrow} />
      {cut && <p class="faint">{t(`The ${a.costs.length} most expensive of ${a.of}.`)}</p>}
      <p class="against">{t("A node's price is divided equally among its resources, and each resource's part among the pods by what they request of it. What is left is requested by no pod that is shown here.")}</p>
    </>
  );
}

/** unknown reports whether nothing is known of what the pods cost. */
const unknown = (c: Cost): boolean => c.price === 0 && !!c.unpriced;

const nameOf = (c: Cost): string => (c.kind ? `${c.kind} ${c.namespace}/${c.name}` : c.namespace);

function fields(title: string, resources: string[], total: number, choose: Props["choose"]): Field<Cost>[] {
  const filter = (c: Cost): string => `namespace=${c.namespace}${c.name ? " " + c.name : ""}`;
  const part = (c: Cost): number => (total > 0 ? c.price / total : 0);
  return [
    {
      key: "of", title, width: 16, by: nameOf,
      show: (c) => c.namespace ? <button type="button" class="link" title={nameOf(c)} onClick={() => choose({ view: "cluster", q: filter(c), group: usual.group, sort: usual.sort })}>{nameOf(c)}</button> : t("requested by no pod"),
    },
    { key: "price", title: "$ an hour", width: 7, number: true, by: (c) => c.price, show: (c) => unknown(c) ? t("not known") : perHour(c.price) },
    { key: "month", title: "$ a month", width: 7, number: true, by: (c) => c.price, show: (c) => unknown(c) ? t("not known") : perMonth(c.price) },
    {
      key: "share", title: "Share", width: 9, by: part,
      show: (c) => <span class="use"><span class="bar"><span style={{ width: 100 * part(c) + "%" }} /></span> <span>{(100 * part(c)).toFixed(1)}%</span></span>,
    },
    { key: "pods", title: "Pods", width: 5, number: true, by: (c) => c.pods, show: (c) => c.pods.toLocaleString("en-US") },
    ...resources.map((r, i): Field<Cost> => ({
      key: r, title: r === "cpu" ? "CPU" : r[0]!.toUpperCase() + r.slice(1), width: 6, number: true, by: (c) => c.requests[i] ?? 0, show: (c) => amount(r, c.requests[i] ?? 0),
    })),
  ];
}

/** download makes the browser save the costs as a file. */
function download(costs: Cost[], resources: string[]): void {
  const heads = ["namespace", "kind", "name", "dollars_per_hour", "pods", ...resources.map((r) => r + "_requested")];
  const requested = (c: Cost): number[] => resources.map((r, i) => (c.requests[i] ?? 0) / (r === "cpu" ? 1000 : 1));
  save("costs.csv", csv([heads, ...costs.map((c) => [c.namespace, c.kind ?? "", c.name ?? "", unknown(c) ? "" : c.price / 1e6, c.pods, ...requested(c)])]));
}
