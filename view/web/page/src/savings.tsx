// What removing nodes has saved, decision by decision, against a stated counterfactual.

import { csv, save } from "./csv";
import { usual, type Choice } from "./fragment";
import { t } from "./language";
import { useNews } from "./news";
import { Order, Short, type Field } from "./table";
import { clock, money, plural } from "./text";

interface Saving {
  decision: string;
  time: string;
  method: string;
  nodePools: string[] | null;
  what: string;
  goneDollars: number;
  replacementsDollars: number;
  launchedDollars: number;
  dollars: number;
  dollarsPerHour: number;
  state: string;
}

interface Sum extends Omit<Saving, "decision" | "time" | "method" | "nodePools" | "what" | "state"> {
  nodePool?: string;
  kind?: string; // of a workload
  namespace?: string;
  name?: string;
  notRecorded?: boolean;
  decisions: number;
}

interface Answer {
  of: number;
  methods: Record<string, number>;
  by: Record<string, { of: number; sums: Sum[] }>; // sums: largest first
  division: string;
  days: { date: string; dollars: number }[] | null; // in UTC, newest first
  ledger: { since: string; until: string; counterfactual: string; dollars: number; dollarsPerHour: number; unpriced?: number; savings: Saving[] };
}

const again = 30_000; // milliseconds: savings grow with time
const methods: Record<string, string> = { Empty: "nodes that nobody needed", Underutilized: "nodes whose pods cost less elsewhere" };

interface Props {
  version: number; // of the decisions
  choice: Choice;
  choose: (change: Partial<Choice>) => void;
  narrow: boolean;
}

export function Savings({ version, ...props }: Props) {
  const a = useNews<Answer>("/api/savings", version, again);
  return (
    <main class="screen">
      <h2>{t("Savings")}</h2>
      {typeof a === "string" && <p class="bad" role="alert">{a}</p>}
      {a === null && <p role="status">{t("Adding up…")}</p>}
      {a && typeof a !== "string" && <Ledger a={a} {...props} />}
    </main>
  );
}

function Ledger({ a, ...props }: { a: Answer } & Omit<Props, "version">) {
  const l = a.ledger;
  return (
    <>
      <p class="sum" data-testid="saved"><strong>{money(l.dollars)}</strong> {t(`since ${clock(Date.parse(l.since))}; now ${money(l.dollarsPerHour)} an hour`)}</p>
      <ul>
        {Object.entries(a.methods).map(([m, sum]) => <li key={m}>{m}, {t(methods[m] ?? "")}: {money(sum)}</li>)}
        {(l.unpriced ?? 0) > 0 && <li>{t(`left out: ${plural(l.unpriced ?? 0, "decision")} about nodes of unknown price`)}</li>}
      </ul>
      <p class="against">{t(l.counterfactual)}</p>
      {l.savings.length > 0 && (
        <>
          <Sums caption={t("Saved by day, in UTC")} rows={(a.days ?? []).map((d) => [d.date, d.dollars])} />
          <Divided a={a} {...props} />
          <h3>{t("Saved by decision")}</h3>
          <p>
            {a.of > l.savings.length ? t(`The newest ${l.savings.length} of ${a.of}.`) : plural(a.of, "decision")}{" "}
            <button type="button" onClick={() => download(l.savings)}>{t("Save as CSV")}</button>
          </p>
          <div class="scroll" tabIndex={0} role="region" aria-label={t("Saved by decision")}>
            <table class="list">
              <thead>
                <tr>
                  {["Time", "Reason", "State", "Saved", "Now, an hour", "Removed nodes", "Replacements", "Launched since", "What"].map((title) => <th scope="col" key={title}>{t(title)}</th>)}
                </tr>
              </thead>
              <tbody>
                {l.savings.map((s) => (
                  <tr key={s.decision}>
                    <th scope="row"><time dateTime={s.time}>{clock(Date.parse(s.time))}</time></th><td>{s.method}</td><td>{s.state}</td>
                    <td class={s.dollars < 0 ? "bad" : "good"}>{money(s.dollars)}</td><td>{money(s.dollarsPerHour)}</td>
                    <td>{money(s.goneDollars)}</td><td>{money(-s.replacementsDollars)}</td><td>{money(-s.launchedDollars)}</td><td>{t(s.what)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </>
  );
}

/** Divided shows what NodePools, namespaces or workloads saved. */
function Divided({ a, choice, choose, narrow }: { a: Answer } & Omit<Props, "version">) {
  const by = Object.hasOwn(titles, choice.group) ? choice.group : usual.group;
  const { of, sums } = a.by[by]!;
  const title = t(`Saved by ${by}`), columns = fields(by, Math.max(...sums.map((s) => s.dollars), 1e-9));
  const sort = columns.some((c) => c.key === choice.sort.replace(/^-/, "")) ? choice.sort : "-saved";
  return (
    <>
      <h3>{title}</h3>
      <p class="row">
        <label>
          <span>{t("By")}</span>{" "}
          <select value={by} onChange={(e) => choose({ group: e.currentTarget.value })}>
            {Object.keys(titles).map((key) => <option key={key} value={key}>{t(key)}</option>)}
          </select>
        </label>
        {narrow && <Order columns={columns} sort={sort} choose={choose} />}
        <button type="button" onClick={() => downloadSums(by, sums)}>{t("Save the sums as CSV")}</button>
      </p>
      <Short title={title} rows={sums} columns={columns} sort={sort} choose={choose} narrow={narrow} />
      {of > sums.length && <p class="faint">{t(`The ${sums.length} largest of ${of}.`)}</p>}
      <p class="against">{t(a.division)}</p>
    </>
  );
}

const titles: Record<string, string> = { pool: "NodePool", namespace: "Namespace", workload: "Workload" };

/** nameOf is as record.Beneficiary.String of the server. */
const nameOf = (s: Sum): string =>
  s.notRecorded ? "not recorded" : s.kind ? `${s.kind} ${s.namespace ?? ""}/${s.name ?? ""}` : s.nodePool || s.namespace || "requested by no pod";

function fields(by: string, best: number): Field<Sum>[] {
  const dollars = (key: string, title: string, width: number, of: (s: Sum) => number): Field<Sum> => ({ key, title, width, number: true, by: of, show: (s) => money(of(s)) });
  const named = (s: Sum): boolean => !!(s.namespace || s.nodePool);
  return [
    { key: "of", title: titles[by]!, width: 16, by: nameOf, show: (s) => <span title={nameOf(s)}>{named(s) ? nameOf(s) : t(nameOf(s))}</span> },
    {
      key: "saved", title: "Saved", width: 10, by: (s) => s.dollars,
      show: (s) => <span class="use"><span class="bar"><span style={{ width: Math.max(0, (100 * s.dollars) / best) + "%" }} /></span> <span class={s.dollars < 0 ? "bad" : undefined}>{money(s.dollars)}</span></span>,
    },
    dollars("now", "Now, an hour", 7, (s) => s.dollarsPerHour),
    dollars("gone", "Removed nodes", 8.7, (s) => s.goneDollars),
    dollars("replacements", "Replacements", 8.7, (s) => -s.replacementsDollars),
    dollars("launched", "Launched since", 8.7, (s) => -s.launchedDollars),
    { key: "decisions", title: "Decisions", width: 6, number: true, by: (s) => s.decisions, show: (s) => s.decisions.toLocaleString("en-US") },
  ];
}

/** downloadSums makes the browser save the sums as a file, as nodeless savings --by does with -o csv. */
function downloadSums(by: string, sums: Sum[]): void {
  const rows = sums.map((s) => [nameOf(s), s.dollars, s.dollarsPerHour, s.goneDollars, s.replacementsDollars, s.launchedDollars, s.decisions]);
  save(`savings-by-${by}.csv`, csv([[by, "saved_dollars", "dollars_per_hour", "removed_dollars", "replacements_dollars", "launched_dollars", "decisions"], ...rows]));
}

/** Sums shows what days saved, with a bar relative to the best; negative savings have no bar. */
function Sums({ caption, rows }: { caption: string; rows: [string, number][] }) {
  const best = Math.max(...rows.map(([, n]) => n), 1e-9);
  return (
    <table class="days">
      <caption>{caption}</caption>
      <tbody>
        {rows.map(([name, n]) => (
          <tr key={name}>
            <th scope="row">{name || t("(none)")}</th>
            <td><span class="use"><span class="bar"><span style={{ width: Math.max(0, (100 * n) / best) + "%" }} /></span> <span class={n < 0 ? "bad" : undefined}>{money(n)}</span></span></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const heads = ["time", "reason", "state", "pools", "saved_dollars", "dollars_per_hour", "removed_dollars", "replacements_dollars", "launched_dollars", "what"];

/** download makes the browser save the shown decisions as a file. */
function download(savings: Saving[]): void {
  const rows = savings.map((s) => [s.time, s.method, s.state, (s.nodePools ?? []).join(" "), s.dollars, s.dollarsPerHour, s.goneDollars, s.replacementsDollars, s.launchedDollars, s.what]);
  save("savings.csv", csv([heads, ...rows]));
}
