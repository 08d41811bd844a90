// The pods that wait: their shapes against the node pools, and each of them with the reason.

import type { Choice } from "./fragment";
import { useAnswer } from "./news";
import type { Pod } from "./pods";
import { age, plural } from "./text";
import type { ClusterState } from "./state";

interface Cell {
  launching?: number;
  could?: boolean;
  rule?: string;
  text?: string;
  funnel?: { rule: string; left: number }[];
}

interface Matrix {
  pools: string[];
  shapes: {
    requests: string;
    suchAs: { namespace: string; name: string };
    pods: number;
    room: number;
    launching: number;
    nothing: number;
    why?: string;
    change?: string;
    pools: Cell[];
  }[];
  prices: string;
  notKnown?: string[];
}

interface Waiting {
  of: number;
  pods: Pod[];
}

const again = 5000; // milliseconds between two questions to the engine

export function Pending({ state, choose }: { state: ClusterState; choose: (change: Partial<Choice>) => void }) {
  const matrix = useAnswer<Matrix>("/api/pending", again);
  const waiting = useAnswer<Waiting>("/api/waiting", again / 5);
  const to = (namespace: string, name: string) => choose({ view: "pending", node: "", pod: `${namespace}/${name}` });
  return (
    <main class="pending">
      <h2>Pending pods and each pool's answer</h2>
      {typeof matrix === "string" && <p class="bad">{matrix}</p>}
      {matrix === null && <p>Asking the engine…</p>}
      {matrix && typeof matrix !== "string" && (
        matrix.shapes.length === 0 ? <p>No pod is pending.</p> : <Shapes m={matrix} to={to} />
      )}
      <h2>Pending pods</h2>
      {typeof waiting === "string" && <p class="bad">{waiting}</p>}
      {waiting && typeof waiting !== "string" && (
        <>
          <p>{waiting.of > waiting.pods.length ? `The ${waiting.pods.length} of ${plural(waiting.of, "pod")} that have waited longest.` : plural(waiting.of, "pod")}</p>
          {waiting.pods.length > 0 && <table class="list">
            <thead><tr><th scope="col">Pod</th><th scope="col">Age</th><th scope="col">Why</th></tr></thead>
            <tbody>
              {waiting.pods.map((p) => (
                <tr key={p.namespace + "/" + p.name}>
                  <th scope="row"><button type="button" class="link" onClick={() => to(p.namespace, p.name)}>{p.namespace}/{p.name}</button></th>
                  <td>{age(state.at / 1000, p.created)}</td>
                  <td>{p.why}</td>
                </tr>
              ))}
            </tbody>
          </table>}
        </>
      )}
    </main>
  );
}

function Shapes({ m, to }: { m: Matrix; to: (namespace: string, name: string) => void }) {
  return (
    <>
      {m.shapes.map((s) => (
        <article class="shape" key={s.suchAs.namespace + "/" + s.suchAs.name}>
          <h3>
            {plural(s.pods, "pod")}, such as{" "}
            <button type="button" class="link" onClick={() => to(s.suchAs.namespace, s.suchAs.name)}>{s.suchAs.namespace}/{s.suchAs.name}</button>
          </h3>
          <p class="asks"><span>requests {s.requests}</span></p>
          <p class="gets">
            {s.room > 0 && <span>{s.room} fit on a node</span>}
            {s.launching > 0 && <span class="good">✓ {s.launching} get a new node</span>}
            {s.nothing > 0 && <span class="bad">✗ {s.nothing} get nothing</span>}
          </p>
          <ul>{s.pools.map((c, i) => <Answer key={m.pools[i]} pool={m.pools[i]!} c={c} />)}</ul>
          {(s.change || s.nothing > 0) && <p class="fix"><strong>What would help:</strong> {s.change ?? "no single change"}</p>}
        </article>
      ))}
      <p><small>Prices: {m.prices}</small></p>
      {m.notKnown?.map((text) => <p key={text}><small>Unknown: {text}</small></p>)}
    </>
  );
}

/** Answer is what a pool says to a shape, with the types that each rule left. */
function Answer({ pool, c }: { pool: string; c: Cell }) {
  const good = c.launching ? `launches for ${c.launching}` : c.could ? "could" : "";
  const text = good || (c.text ?? "").replace(`pool ${pool}: `, "");
  const all = c.funnel?.[0]?.left ?? 0;
  return (
    <li>
      <span class={good ? "good" : "bad"} aria-hidden="true">{good ? "✓" : "✗"}</span>
      <span><strong>{pool}</strong> {text}</span>
      {!good && c.funnel && c.funnel.length > 1 && (
        <ol class="funnel" aria-label="types left">
          {c.funnel.map((f) => (
            <li key={f.rule}><small>{f.rule}</small><span class="bar"><span style={{ width: (100 * f.left) / Math.max(1, all) + "%" }} /></span><small>{f.left}</small></li>
          ))}
        </ol>
      )}
    </li>
  );
}
