// What taking nodes away has saved, decision by decision, against a counterfactual that is stated.

import { useNews } from "./news";
import { clock, plural } from "./text";

interface Saving {
  decision: string;
  time: string;
  method: string;
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
  days: { date: string; dollars: number }[] | null; // in UTC, the newest first
  ledger: { since: string; until: string; counterfactual: string; dollars: number; dollarsPerHour: number; unpriced?: number; savings: Saving[] };
}

const again = 30_000; // milliseconds: it grows by itself
const money = (n: number): string => (n < 0 && n.toFixed(4) !== "-0.0000" ? "−" : "") + "$" + Math.abs(n).toFixed(4);
const methods: Record<string, string> = { Empty: "nodes that nobody needed", Underutilized: "nodes whose pods cost less elsewhere" };

export function Savings({ version }: { version: number }) {
  const a = useNews<Answer>("/api/savings", version, again);
  return (
    <main class="screen">
      <h2>Savings</h2>
      {typeof a === "string" && <p class="bad" role="alert">{a}</p>}
      {a === null && <p role="status">Adding up…</p>}
      {a && typeof a !== "string" && <Ledger a={a} />}
    </main>
  );
}

function Ledger({ a }: { a: Answer }) {
  const l = a.ledger;
  return (
    <>
      <p class="sum" data-testid="saved"><strong>{money(l.dollars)}</strong> since {clock(Date.parse(l.since))}; now {money(l.dollarsPerHour)} an hour</p>
      <ul>
        {Object.entries(a.methods).map(([m, sum]) => <li key={m}>{m}, {methods[m] ?? ""}: {money(sum)}</li>)}
        {(l.unpriced ?? 0) > 0 && <li>left out: {plural(l.unpriced ?? 0, "decision")} about nodes of unknown price</li>}
      </ul>
      <p class="against">{l.counterfactual}</p>
      {l.savings.length > 0 && (
        <>
          <Days days={a.days ?? []} />
          <p>{a.of > l.savings.length ? `The newest ${l.savings.length} of ${a.of}.` : plural(a.of, "decision")}</p>
          <div class="scroll" tabIndex={0} role="region" aria-label="Saved by decision">
            <table class="list">
              <thead>
                <tr>
                  <th scope="col">Time</th><th scope="col">Reason</th><th scope="col">State</th><th scope="col">Saved</th><th scope="col">Now, an hour</th>
                  <th scope="col">Removed nodes</th><th scope="col">Replacements</th><th scope="col">Launched since</th><th scope="col">What</th>
                </tr>
              </thead>
              <tbody>
                {l.savings.map((s) => (
                  <tr key={s.decision}>
                    <th scope="row"><time dateTime={s.time}>{clock(Date.parse(s.time))}</time></th><td>{s.method}</td><td>{s.state}</td>
                    <td class={s.dollars < 0 ? "bad" : "good"}>{money(s.dollars)}</td><td>{money(s.dollarsPerHour)}</td>
                    <td>{money(s.goneDollars)}</td><td>{money(-s.replacementsDollars)}</td><td>{money(-s.launchedDollars)}</td><td>{s.what}</td>
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

/** Days are what each day saved, with a bar for its share of the best; a day that cost more has none. */
function Days({ days }: { days: NonNullable<Answer["days"]> }) {
  const best = Math.max(...days.map((d) => d.dollars), 1e-9);
  return (
    <table class="days">
      <caption>Saved by day, in UTC</caption>
      <tbody>
        {days.map((d) => (
          <tr key={d.date}>
            <th scope="row"><time>{d.date}</time></th>
            <td><span class="use"><span class="bar"><span style={{ width: Math.max(0, (100 * d.dollars) / best) + "%" }} /></span> <span class={d.dollars < 0 ? "bad" : undefined}>{money(d.dollars)}</span></span></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
