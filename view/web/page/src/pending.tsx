// The pods that wait: their shapes against the node pools, and each of them with the reason.

import { useEffect, useState } from "preact/hooks";
import type { Choice } from "./fragment";
import type { Pod } from "./pods";
import { ask } from "./source";
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
        matrix.shapes.length === 0 ? <p>No pod is pending.</p> : <Grid m={matrix} to={to} />
      )}
      <h2>Pending pods</h2>
      {typeof waiting === "string" && <p class="bad">{waiting}</p>}
      {waiting && typeof waiting !== "string" && (
        <>
          <p>{waiting.of > waiting.pods.length ? `The ${waiting.pods.length} of ${plural(waiting.of, "pod")} that have waited longest.` : plural(waiting.of, "pod")}</p>
          <table class="list">
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
          </table>
        </>
      )}
    </main>
  );
}

function Grid({ m, to }: { m: Matrix; to: (namespace: string, name: string) => void }) {
  return (
    <div class="scroll">
      <table class="matrix">
        <thead>
          <tr>
            <th scope="col">Pods</th><th scope="col">request</th><th scope="col">get</th>
            {m.pools.map((p) => <th scope="col" key={p}>pool {p}</th>)}
            <th scope="col">what would help</th>
          </tr>
        </thead>
        <tbody>
          {m.shapes.map((s) => (
            <tr key={s.suchAs.namespace + "/" + s.suchAs.name}>
              <th scope="row">
                {plural(s.pods, "pod")}, such as{" "}
                <button type="button" class="link" onClick={() => to(s.suchAs.namespace, s.suchAs.name)}>{s.suchAs.namespace}/{s.suchAs.name}</button>
              </th>
              <td>{s.requests}</td>
              <td>
                {s.room > 0 && <div>{s.room} room on a node</div>}
                {s.launching > 0 && <div class="good">{s.launching} a new node</div>}
                {s.nothing > 0 && <div class="bad">{s.nothing} nothing</div>}
              </td>
              {s.pools.map((c, i) => <Answer key={m.pools[i]} c={c} />)}
              <td>{s.change ?? (s.nothing > 0 ? "no single change" : "")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p><small>Prices: {m.prices}</small></p>
      {m.notKnown?.map((text) => <p key={text}><small>Unknown: {text}</small></p>)}
    </div>
  );
}

function Answer({ c }: { c: Cell }) {
  if (c.launching) return <td class="good">✓ launches for {c.launching}</td>;
  if (c.could) return <td class="good">✓ could</td>;
  return (
    <td class="bad">
      ✗ {c.text}
      {c.funnel && c.funnel.length > 1 && <div><small>types left: {c.funnel.map((f) => `${f.rule} ${f.left}`).join(" → ")}</small></div>}
    </td>
  );
}

/** useAnswer asks now and again; a text is what went wrong. */
function useAnswer<T>(path: string, every: number): T | string | null {
  const [answer, set] = useState<T | string | null>(null);
  useEffect(() => {
    let timer = 0;
    const stop = new AbortController();
    const round = async (): Promise<void> => {
      try {
        set(await ask<T>(path, stop.signal));
      } catch (e) {
        if (!stop.signal.aborted) set((e as Error).message);
      }
      if (!stop.signal.aborted) timer = window.setTimeout(() => void round(), every);
    };
    void round();
    return () => (stop.abort(), window.clearTimeout(timer));
  }, [path, every]);
  return answer;
}
