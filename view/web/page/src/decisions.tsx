// Decisions with their reasons, outcomes and alternatives, newest first.

import { useEffect, useState } from "preact/hooks";
import { write, type Choice } from "./fragment";
import { t } from "./language";
import { useNews } from "./news";
import { age, clock, money, plural } from "./text";
import { Facts } from "./tip";

interface Offer {
  type: string;
  zone?: string;
  capacityType?: string;
  dollarsPerHour: number;
}

interface Decision {
  id: string;
  time: string;
  kind: string;
  method?: string;
  rule?: string;
  why: string;
  became?: string;
  count: number;
  pods?: string[];
  podsMore?: number;
  goes?: (Offer & { node?: string; nodeClaim?: string; nodePool?: string; pods?: string[]; podsMore?: number })[];
  comes?: { nodeClaim?: string; nodePool: string; chosen: Offer; runnerUp?: Offer; others?: Offer[]; types: number; requests?: string }[];
  savesDollarsPerHour?: number;
  snapshot?: string;
}

interface List {
  of: number;
  kept: number;
  items: Decision[];
  damaged?: string[];
}

interface Props {
  version: number; // of the decisions
  now: number; // milliseconds since 1970
  since: number; // the first moment that is kept, likewise
  choice: Choice;
  choose: (change: Partial<Choice>) => void;
}

const more = 100;
const most = 1000;

export function Decisions({ version, now, since, choice, choose }: Props) {
  const [limit, setLimit] = useState(more);
  const [words, setWords] = useState(choice.about);
  useEffect(() => { // search only after a pause in typing
    const timer = setTimeout(() => setWords(choice.about), 200);
    return () => clearTimeout(timer);
  }, [choice.about]);
  const list = useNews<List>(`/api/decisions?limit=${limit}&q=${encodeURIComponent(words)}`, version);
  return (
    <main class="screen">
      <h2>{t("Decisions")}</h2>
      <form role="search" onSubmit={(e) => e.preventDefault()}>
        <label>
          <span>{t("Find")}</span>{" "}
          <input type="search" value={choice.about} placeholder={t("pod, node, pool, reason …")} onInput={(e) => choose({ about: e.currentTarget.value })} />
        </label>
      </form>
      {typeof list === "string" && <p class="bad" role="alert">{list}</p>}
      {list === null && <p role="status">{t("Reading the decisions…")}</p>}
      {list && typeof list !== "string" && (
        <>
          <p role="status">
            {t(list.kept === 0 ? "No decisions yet." : list.of === 0 ? `None of the ${plural(list.kept, "recorded decision")} matches.`
              : `The newest ${list.items.length} of ${list.of}, of ${plural(list.kept, "recorded decision")}.`)}
          </p>
          {list.damaged?.map((text) => <p class="bad" key={text}>{text}</p>)}
          {list.items.length > 0 && (
            <div class="scroll"><table class="list decisions">
              <thead><tr>{["Age", "Decision", "Reason", "Decision and outcome", "An hour"].map((title) => <th scope="col" key={title}>{t(title)}</th>)}</tr></thead>
              <tbody>{list.items.map((d) => <Row key={d.id} d={d} now={now} since={since} choice={choice} choose={choose} />)}</tbody>
            </table></div>
          )}
          {list.of > list.items.length && limit < most && <p><button type="button" onClick={() => setLimit(Math.min(most, limit + 3 * more))}>{t("Older")}</button></p>}
        </>
      )}
    </main>
  );
}

function Row({ d, now, since, choice, choose }: { d: Decision } & Omit<Props, "version">) {
  const at = Date.parse(d.time);
  const saves = d.savesDollarsPerHour ?? 0;
  return (
    <tr>
      <td><time dateTime={d.time} title={clock(at)}>{age(now / 1000, at / 1000)}</time></td>
      <th scope="row">{d.kind}</th>
      <td>{d.method || d.rule || ""}</td>
      <td>
        <div>{t(d.why)}</div>
        {d.became && <div class="became">{t(d.became)}</div>}
        <details>
          <summary>{t("More")}</summary>
          <Facts lines={facts(d)} />
          {at >= since && <p><a class="link" href={write({ ...choice, view: "cluster", at })}>{t("The cluster at that moment")}</a></p>}
          <Links d={d} choose={choose} />
        </details>
      </td>
      <td>{saves > 0 ? <span class="good">{t(`saves ${money(saves)}`)}</span> : saves < 0 ? <span class="bad">{t(`costs ${money(-saves)}`)}</span> : ""}</td>
    </tr>
  );
}

function Links({ d, choose }: { d: Decision; choose: Props["choose"] }) {
  const nodes = (d.goes ?? []).map((m) => m.node ?? m.nodeClaim ?? "").concat((d.comes ?? []).map((b) => b.nodeClaim ?? "")).filter(Boolean);
  const pods = (d.pods ?? []).concat(...(d.goes ?? []).map((m) => m.pods ?? []));
  return (
    <ul class="links">
      {nodes.map((n) => <li key={n}><button type="button" class="link" onClick={() => choose({ node: n, pod: "" })}>{n}</button></li>)}
      {pods.map((p) => <li key={p}><button type="button" class="link" onClick={() => choose({ node: "", pod: p })}>{p}</button></li>)}
      {d.count > pods.length && <li>{t(`and ${d.count - pods.length} more`)}</li>}
    </ul>
  );
}

const offer = (o: Offer): string => [o.type, o.capacityType, o.zone && `in ${o.zone}`, o.dollarsPerHour > 0 && `at ${money(o.dollarsPerHour)}/h`].filter(Boolean).join(" ");

function facts(d: Decision): [string, string][] {
  const out: [string, string][] = [[t("time"), d.time], [t("pods"), String(d.count)]];
  for (const m of d.goes ?? []) out.push([t("removed"), `${m.node || m.nodeClaim || ""}: ${offer(m)}${m.nodePool ? `, pool ${m.nodePool}` : ""}`]);
  for (const b of d.comes ?? []) {
    out.push([t("launched"), `${b.nodeClaim || "a node"}: ${offer(b.chosen)}, pool ${b.nodePool}${b.requests ? `, for ${b.requests}` : ""}`]);
    out.push([t("instead of"), b.runnerUp ? [b.runnerUp, ...(b.others ?? [])].map(offer).join("; ") : t("nothing: no other type fits")]);
    out.push([t("types that fit"), plural(b.types, "type")]);
  }
  if (d.snapshot) out.push([t("snapshot"), d.snapshot]);
  return out;
}
