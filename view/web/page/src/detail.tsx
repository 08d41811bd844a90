// The details of a node or pod, and the engine's answer to why.

import { useState } from "preact/hooks";
import { Use } from "./columns";
import type { Choice } from "./fragment";
import { t } from "./language";
import { useOnce } from "./news";
import { usePods } from "./pods";
import { Raw } from "./raw";
import { amount } from "./text";
import { Facts } from "./tip";
import { lines } from "./words";
import { gauges, share, titleOf, type ClusterState } from "./state";
import { usedBy } from "./usage";

interface Answer {
  summary: string;
  state: string;
  facts: { label: string; text: string }[];
}

interface Props {
  state: ClusterState;
  choice: Choice;
  choose: (change: Partial<Choice>) => void;
  past: boolean;
}

const mostListed = 300;

export function Detail({ state, choice, choose, past }: Props) {
  const m = choice.pod ? undefined : [...state.nodes.values()].find((m) => m.name === choice.node);
  const pods = usePods(m, !past);
  const [namespace = "", name = ""] = choice.pod.split("/");
  return (
    <aside class="detail" aria-label={t("Details")} onKeyDown={(e) => e.key === "Escape" && choose({ node: "", pod: "" })}>
      <header>
        <h2>{choice.pod || choice.node}</h2>
        <button type="button" onClick={() => choose({ node: "", pod: "" })} aria-label={t("Close details")}>✕</button>
      </header>
      {choice.pod ? (
        <>
          {choice.node && <p><button type="button" class="link" onClick={() => choose({ pod: "" })}>{t(`on ${choice.node}`)}</button></p>}
          <Why of={`pod/${name}`} namespace={namespace} past={past} />
          {!past && <Raw kind="Pod" namespace={namespace} name={name} now={state.now / 1000} />}
        </>
      ) : !m ? (
        <p>{t(past ? "It does not exist at this moment." : "It no longer exists.")} <Gone name={choice.node} past={past} /></p>
      ) : (
        <>
          <ul class="gauges" aria-label={t("Utilisation")}>
            {gauges(m, state.resources).map(({ name, at }) => (
              <li key={name}><Use resource={name} label={titleOf(name)} used={m.requests[at] ?? 0} of={m.allocatable[at] ?? 0} part={share(m, at)} measured={usedBy(m, state.usage, name)} /></li>
            ))}
          </ul>
          <Facts lines={lines(m, state)} />
          <Why of={m.hasNode ? `node/${m.name}` : `nodeclaim/${m.name}`} past={past} />
          <h3>{t("Pods")}</h3>
          {past && <p>{t("Names of pods are shown live only.")}</p>}
          <ul class="pods">
            {pods?.slice(0, mostListed).map((p) => (
              <li key={p.namespace + "/" + p.name}>
                <button type="button" class="link" onClick={() => choose({ pod: `${p.namespace}/${p.name}` })}>{p.namespace}/{p.name}</button>
                <small> {p.deleting ? "Terminating" : p.phase}, {state.resources.map((r, i) => amount(r, p.requests[i] ?? 0)).join(" · ")}</small>
              </li>
            ))}
          </ul>
          {pods && pods.length > mostListed && <p>{t(`and ${pods.length - mostListed} more`)}</p>}
          <details>
            <summary>{t("Labels")}</summary>
            <Facts lines={Object.entries(m.kind.labels).sort()} />
          </details>
          {!past && m.hasNode && <Raw kind="Node" name={m.name} now={state.now / 1000} />}
          {!past && m.claim && <Raw kind="NodeClaim" name={m.claim} now={state.now / 1000} />}
        </>
      )}
    </aside>
  );
}

function Gone({ name, past }: { name: string; past: boolean }) {
  return past ? null : <Why of={`node/${name}`} past={past} />;
}

/** Why asks the engine only on demand: an answer may take a while. */
function Why({ of, namespace, past }: { of: string; namespace?: string; past: boolean }) {
  const [asked, want] = useState("");
  const path = `/api/why?of=${encodeURIComponent(of)}&namespace=${encodeURIComponent(namespace ?? "")}`;
  const answer = useOnce<Answer>(path, asked === path);
  if (past) return <p>{t("Why is answered for the present only.")}</p>;
  if (asked !== path) return <p><button type="button" onClick={() => want(path)}>{t("Why?")}</button></p>;
  return (
    <section class="why" aria-live="polite" aria-busy={answer === null}>
      {answer === null ? <p>{t("Asking the engine…")}</p> : typeof answer === "string" ? <p class="bad" role="alert">{answer}</p> : (
        <>
          <p><strong>{t(answer.summary)}</strong></p>
          <Facts lines={answer.facts.map((f) => [t(f.label), f.label === "command" ? f.text : t(f.text)])} />
        </>
      )}
    </section>
  );
}
