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

const again = 5000; // milliseconds between two requests to the engine

export function Pending({ state, choose }: { state: ClusterState; choose: (change: Partial<Choice>) => void }) {
  const matrix = useAnswer<Matrix>("/api/pending", again);
  const waiting = useAnswer<Waiting>("/api/waiting", again / 5);
  const to = (namespace: string, name: string) => choose({ view: "pending", node: "", pod: `${namespace}/${name}` });
  return (
    <main class="pending">
      <h2>{t("Pending pods and each pool's answer")}</h2>
      {typeof matrix === "string" && <p class="bad">{matrix}</p>}
      {matrix === null && <p>{t("Asking the engine…")}</p>}
      {matrix && typeof matrix !== "string" && (
        matrix.shapes.length === 0 ? <p>{t("No pod is pending.")}</p> : <Shapes m={matrix} to={to} />
      )}
      <h2>{t("Pending pods")}</h2>
      {typeof waiting === "string" && <p class="bad">{waiting}</p>}
      {waiting && typeof waiting !== "string" && (
        <>
          <p>{waiting.of > waiting.pods.length ? t(`The ${waiting.pods.length} of ${plural(waiting.of, "pod")} that have waited longest.`) : plural(waiting.of, "pod")}</p>
          {waiting.pods.length > 0 && <table class="list">
            <thead><tr><th scope="col">{t("Pod")}</th><th scope="col">{t("Age")}</th><th scope="col">{t("Why")}</th></tr></thead>
            <tbody>
              {waiting.pods.map((p) => (
                <tr key={p.namespace + "/" + p.name}>
                  <th scope="row"><button type="button" class="link" onClick={() => to(p.namespace, p.name)}>{p.namespace}/{p.name}</button></th>
                  <td>{age(state.now / 1000, p.created)}</td>
                  <td>{t(p.why ?? "")}</td>
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
