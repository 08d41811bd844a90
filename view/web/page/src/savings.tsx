// What removing nodes has saved, decision by decision, against a stated counterfactual.

import { csv, save } from "./csv";
import { t } from "./language";
import { useNews } from "./news";
import { clock, plural } from "./text";

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

interface Answer {
  of: number;
  methods: Record<string, number>;
  pools: Record<string, number>;
  days: { date: string; dollars: number }[] | null; // in UTC, newest first
  ledger: { since: string; until: string; counterfactual: string; dollars: number; dollarsPerHour: number; unpriced?: number; savings: Saving[] };
}

const again = 30_000; // milliseconds: savings grow with time
const money = (n: number): string => (n < 0 && n.toFixed(4) !== "-0.0000" ? "−" : "") + "$" + Math.abs(n).toFixed(4);
const methods: Record<string, string> = { Empty: "nodes that nobody needed", Underutilized: "nodes whose pods cost less elsewhere" };

export function Savings({ version }: { version: number }) {
  const a = useNews<Answer>("/api/savings", version, again);
  return (
    <main class="screen">
      <h2>{t("Savings")}</h2>
      {typeof a === "string" && <p class="bad" role="alert">{a}</p>}
      {a === null && <p role="status">{t("Adding up…")}</p>}
      {a && typeof a !== "string" && <Ledger a={a} />}
    </main>
  );
}

function Ledger({ a }: { a: Answer }) {
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
          <Sums caption={t("Saved by pool")} rows={Object.entries(a.pools).sort(([, x], [, y]) => y - x)} />
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

/** Sums shows what days or pools saved, with a bar relative to the best; negative savings have no bar. */
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
