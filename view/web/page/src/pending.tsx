// The pending pods: their shapes against the NodePools, and each pod with its reason.

import { useState } from "preact/hooks";
import { Copy } from "./copy";
import type { Choice } from "./fragment";
import { t } from "./language";
import { useAnswer, useOnce } from "./news";
import type { Pod } from "./pods";
import { age, perHour, plural } from "./text";
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

interface Change {
  text: string;
  command?: string; // the shell command that makes it
  launch?: { type: string; zone?: string; capacityType?: string; dollarsPerHour: number };
}

interface Waiting {
  of: number;
  pods: Pod[];
}

type To = (namespace: string, name: string) => void; // opens the details of a pod

const again = 5000; // milliseconds between two requests to the engine
const mostShapes = 50, fewPods = 20;

export function Pending({ state, choose }: { state: ClusterState; choose: (change: Partial<Choice>) => void }) {
  const matrix = useAnswer<Matrix>("/api/pending", again);
  const waiting = useAnswer<Waiting>("/api/waiting", again);
  const alike = matrix !== null && typeof matrix !== "string" && matrix.shapes.length === 1 && matrix.shapes[0]!.pods > fewPods;
  const to: To = (namespace, name) => choose({ view: "pending", node: "", pod: `${namespace}/${name}` });
  return (
    <main class="pending">
      <h2>{t("Pending pods and each pool's answer")}</h2>
      {typeof matrix === "string" && <p class="bad" role="alert">{matrix}</p>}
      {matrix === null && <p role="status">{t("Asking the engine…")}</p>}
      {matrix && typeof matrix !== "string" && (
        matrix.shapes.length === 0 ? <p>{t("No pod is pending.")}</p> : <Shapes m={matrix} to={to} />
      )}
      <h2>{t("Pending pods")}</h2>
      {typeof waiting === "string" && <p class="bad" role="alert">{waiting}</p>}
      {waiting && typeof waiting !== "string" && <Pods w={waiting} now={state.now / 1000} closed={alike} to={to} />}
    </main>
  );
}

/** Pods is a table of pods; until a reader opens or closes it, it is closed if there are many and all of one shape, which has said the same of them. */
function Pods({ w, now, closed, to }: { w: Waiting; now: number; closed: boolean; to: To }) {
  const [chosen, setChosen] = useState<boolean | null>(null), open = chosen ?? !closed;
  const sum = w.of > w.pods.length ? t(`The ${w.pods.length} of ${plural(w.of, "pod")} that have waited longest.`) : plural(w.of, "pod");
  if (w.pods.length === 0) return <p>{sum}</p>;
  return (
    <details open={open} onToggle={(e) => e.currentTarget.open !== open && setChosen(e.currentTarget.open)}>
      <summary>{sum}</summary>
      {open && (
        <table class="list">
          <thead><tr><th scope="col">{t("Pod")}</th><th scope="col">{t("Age")}</th><th scope="col">{t("Why")}</th></tr></thead>
          <tbody>
            {w.pods.map((p) => (
              <tr key={p.namespace + "/" + p.name}>
                <th scope="row"><button type="button" class="link" onClick={() => to(p.namespace, p.name)}>{p.namespace}/{p.name}</button></th>
                <td>{age(now, p.created)}</td>
                <td>{t(p.why ?? "")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </details>
  );
}

function Shapes({ m, to }: { m: Matrix; to: To }) {
  const more = m.shapes.length - mostShapes;
  return (
    <>
      {m.shapes.slice(0, mostShapes).map((s) => (
        <article class="shape" key={s.suchAs.namespace + "/" + s.suchAs.name}>
          <h3>
            {t(`${plural(s.pods, "pod")}, such as`)}{" "}
            <button type="button" class="link" onClick={() => to(s.suchAs.namespace, s.suchAs.name)}>{s.suchAs.namespace}/{s.suchAs.name}</button>
          </h3>
          <p class="asks"><span>{t("requests")} {s.requests}</span></p>
          <p class="gets">
            {s.room > 0 && <span>{t(`${s.room} fit on a node`)}</span>}
            {s.launching > 0 && <span class="good">✓ {t(`${s.launching} get a new node`)}</span>}
            {s.nothing > 0 && <span class="bad">✗ {t(`${s.nothing} get nothing`)}</span>}
          </p>
          <ul>{s.pools.map((c, i) => <Answer key={m.pools[i]} pool={m.pools[i]!} c={c} />)}</ul>
          {(s.change || s.nothing > 0) && <p class="fix"><strong>{t("What would help:")}</strong> {t(s.change ?? "no single change")}</p>}
          {s.change && <Fixes of={s.suchAs} />}
        </article>
      ))}
      {more > 0 && <p>{t(`${more.toLocaleString("en-US")} more ${more === 1 ? "shape" : "shapes"} not listed; the first leave the most pods without a node.`)}</p>}
      <p><small>{t("Prices")}: {t(m.prices)}</small></p>
      {m.notKnown?.map((text) => <p key={text}><small>{t("Unknown")}: {t(text)}</small></p>)}
    </>
  );
}

/** Fixes shows up to three changes, each of which would help on its own. It asks the engine only on demand: an answer may take a while. */
function Fixes({ of }: { of: { namespace: string; name: string } }) {
  const [wanted, want] = useState(false);
  const answer = useOnce<{ changes?: Change[] }>(`/api/why?of=${encodeURIComponent("pod/" + of.name)}&namespace=${encodeURIComponent(of.namespace)}`, wanted);
  if (!wanted) return <p><button type="button" onClick={() => want(true)}>{t("Fixes and prices")}</button></p>;
  if (answer === null) return <p role="status">{t("Asking the engine…")}</p>;
  if (typeof answer === "string") return <p class="bad" role="alert">{answer}</p>;
  return (
    <ol class="fixes" aria-label={t("Fixes")}>
      {(answer.changes ?? []).map((c) => (
        <li key={c.text}>
          {t(c.text)}
          {c.launch && <div class="faint">{t(`launches ${[c.launch.type, c.launch.capacityType, c.launch.zone].filter(Boolean).join(" ")}`)} · {perHour(c.launch.dollarsPerHour * 1e6)}/h</div>}
          {c.command && <div class="command"><code>{c.command}</code> <Copy text={c.command} /></div>}
        </li>
      ))}
    </ol>
  );
}

/** Answer shows why a pool can or cannot launch for a shape, with the number of types that each rule left. */
function Answer({ pool, c }: { pool: string; c: Cell }) {
  const good = c.launching ? `launches for ${c.launching}` : c.could ? "could" : "";
  const text = good || (c.text ?? "").replace(`pool ${pool}: `, "");
  const all = c.funnel?.[0]?.left ?? 0;
  return (
    <li>
      <span class={good ? "good" : "bad"} aria-hidden="true">{good ? "✓" : "✗"}</span>
      <span><strong>{pool}</strong> {t(text)}</span>
      {!good && c.funnel && c.funnel.length > 1 && (
        <ol class="funnel" aria-label={t("types left")}>
          {c.funnel.map((f) => (
            <li key={f.rule}><small>{f.rule}</small><span class="bar"><span style={{ width: (100 * f.left) / Math.max(1, all) + "%" }} /></span><small>{f.left}</small></li>
          ))}
        </ol>
      )}
    </li>
  );
}
