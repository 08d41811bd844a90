// The NodePools: the nodes of each, what it may launch, and what its budgets allow.

import { useEffect, useRef } from "preact/hooks";
import { Use } from "./columns";
import type { Choice } from "./fragment";
import { language, t } from "./language";
import { useAnswer, useOnce } from "./news";
import { Raw } from "./raw";
import type { ClusterState } from "./state";
import { age, clock, perHour, plural, span } from "./text";

interface Budget {
  nodes: string;
  reasons?: string[];
  schedule?: string;
  seconds?: number;
  active: boolean;
  turns?: number; // when it next comes into force or ceases to be
  spans?: [number, number][]; // when it is in force in the coming week, by its schedule
}

interface Pool {
  name: string;
  weight: number;
  nodes: number;
  price: number;
  unpriced?: number; // of its nodes, those of unknown price
  requests: number[];
  allocatable: number[];
  limits: { resource: string; used: string; limit: string; share: number }[];
  budgets: Budget[];
  zone?: string; // time zone of schedules
  windows?: { text: string; open: boolean; turns?: number; reasons: string[]; spans?: [number, number][] };
  allowed: Record<string, number>;
  conditions: { type: string; status: string; reason: string; message: string; since: number }[];
}

interface Offering {
  type: string;
  zone: string;
  capacityType: string;
  dollarsPerHour: number;
}

interface Offers {
  pools: {
    pool: string;
    offered: number;
    allowed: number;
    available: number;
    cheapest?: Offering;
    dearest?: Offering;
    exhausted?: { type: string; zone: string; capacityType: string; retryAt: string }[];
    exhaustedOf?: number;
  }[];
  prices: string;
  backoffKnown?: boolean;
  notKnown?: string[];
}

interface Props {
  state: ClusterState;
  choice: Choice;
  choose: (change: Partial<Choice>) => void;
  past: boolean;
}

const again = 2000; // milliseconds between two requests
const rarely = 30_000; // for the engine, whose answers depend on prices and NodePools

export function Pools({ past, ...props }: Props) {
  return (
    <main class="screen pools">
      <h2>{t("Pools")}</h2>
      {past ? <p role="status">{t("Pools are shown live only.")}</p> : <Live {...props} />}
    </main>
  );
}

function Live({ state, choice, choose }: Omit<Props, "past">) {
  const pools = useAnswer<Pool[]>("/api/pools", again);
  const offers = useAnswer<Offers>("/api/offers", rarely);
  return (
    <>
      {typeof pools === "string" && <p class="bad" role="alert">{pools}</p>}
      {pools === null && <p role="status">{t("Reading the pools…")}</p>}
      {pools && typeof pools !== "string" && (
        pools.length === 0 ? <p role="status">{t("There are no NodePools, or you may not list them.")}</p>
          : <div class="cards">{pools.map((p) => <Card key={p.name} p={p} offers={offers} state={state} choice={choice} choose={choose} />)}</div>
      )}
      {offers && typeof offers !== "string" && <p class="faint">{!offers.backoffKnown && t("Not known here: which offerings the cloud had no capacity for lately; see the controller's own page.") + " "}{t("Prices")}: {t(offers.prices)}{offers.notKnown?.map((text) => <span key={text}> · {t("Unknown")}: {t(text)}</span>)}</p>}
    </>
  );
}

function Card({ p, offers, state, choice, choose }: { p: Pool; offers: Offers | string | null; state: ClusterState; choice: Choice; choose: Props["choose"] }) {
  const card = useRef<HTMLElement>(null);
  const chosen = p.name !== "" && choice.pool === p.name;
  useEffect(() => {
    if (chosen) card.current?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const filter = p.name === "" ? "pool=" : `pool=${p.name}`;
  return (
    <article class={chosen ? "shape chosen" : "shape"} ref={card} aria-label={p.name || t("Nodes of no pool")}>
      <header>
        <h3>{p.name || t("(no pool)")}</h3>
        <strong>{p.unpriced && p.price === 0 ? t("price not known") : `${perHour(p.price)}/h`}</strong>
      </header>
      <p class="faint">
        {p.nodes > 0 ? <button type="button" class="link" onClick={() => choose({ view: "nodes", q: filter, node: "", pod: "" })}>{plural(p.nodes, "node")}</button> : t("no nodes")}
        {others(state, p.name).map((text) => <span key={text}> · {text}</span>)}
        {p.name && <span> · {t(`weight ${p.weight}`)}</span>}
      </p>
      {p.conditions.map((c) => <p class="bad" key={c.type}>✗ {t(`${c.type} is ${c.status}`)}{c.reason && `: ${c.reason}`}{c.message && <>: <span>{t(c.message)}</span></>}{c.since > 0 && ` (${t(`for ${age(state.now / 1000, c.since)}`)})`}</p>)}
      <dl>
        {p.nodes > 0 && <Fact name={t("Requested")}>{state.resources.map((r, i) => <div key={r}><Use label={r} resource={r} used={p.requests[i] ?? 0} of={p.allocatable[i] ?? 0} part={part(p.requests[i], p.allocatable[i])} /></div>)}</Fact>}
        {p.name && <Fact name={t("Limits")}>{p.limits.length === 0 ? t("none") : p.limits.map((l) => <Limit key={l.resource} {...l} />)}</Fact>}
        {p.name && <Fact name={t("Budgets")}><Budgets p={p} now={state.now / 1000} /></Fact>}
        {p.name && <Fact name={t("May launch")}><MayLaunch pool={p.name} offers={offers} now={state.now / 1000} /></Fact>}
      </dl>
      {p.name && <Raw kind="NodePool" name={p.name} now={state.now / 1000} />}
    </article>
  );
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

const part = (used = 0, of = 0): number => (of > 0 ? used / of : 0);

/** others counts a pool's nodes by status, except for ready ones. */
function others(state: ClusterState, pool: string): string[] {
  const counts = new Map<string, number>();
  for (const m of state.nodes.values()) if (m.kind.pool === pool && m.status !== "Ready") counts.set(m.status, (counts.get(m.status) ?? 0) + 1);
  return [...counts].sort().map(([status, n]) => `${n} ${status}`);
}

function Limit({ resource, used, limit, share }: Pool["limits"][number]) {
  return (
    <div>
      <span class="use"><small>{resource}</small><span class="bar"><span class={share >= 0.9 ? "near" : undefined} style={{ width: Math.min(100, 100 * share) + "%" }} /></span> <span>{used} / {limit}{share >= 1 ? ", " + t("reached") : ""}</span></span>
    </div>
  );
}

function Budgets({ p, now }: { p: Pool; now: number }) {
  const when = (turns: number): string => t(`${clock(turns * 1000)} (in ${span(turns - now)})`);
  const turn = (active: boolean, turns: number | undefined, words: [string, string]): string =>
    t(active ? (turns ? `${words[0]} until ${when(turns)}` : words[0]) : turns ? `${words[1]}; next from ${when(turns)}` : `${words[1]}; never again`);
  const zone = p.zone ? ` ${p.zone}` : "";
  return (
    <>
      <ul class="budgets">
        {p.budgets.map((b, i) => (
          <li key={i}>
            <span class={b.active ? "" : "faint"}>{budget(b)}</span>
            {b.schedule && <div class="faint">{b.schedule}{zone} {t(`for ${span(b.seconds ?? 0)}`)}: {turn(b.active, b.turns, ["in force", "not in force"])}</div>}
            {b.schedule && <Week spans={b.spans ?? []} now={now} />}
          </li>
        ))}
        {p.windows && (
          <li>
            {t(`Disruption window for ${p.windows.reasons.join(", ")}`)}
            <div class="faint">{p.windows.text}{zone}: {turn(p.windows.open, p.windows.turns, ["open", "closed"])}</div>
            <Week spans={p.windows.spans ?? []} now={now} />
          </li>
        )}
      </ul>
      <div>{t("Allowed at once now")}: {Object.entries(p.allowed).map(([reason, n]) => `${n} ${reason}`).join(", ")}</div>
    </>
  );
}

const day = 86_400;

/** Week is a strip of the coming seven days, filled where something is in force. Midnights are in the browser's time zone. */
function Week({ spans, now }: { spans: [number, number][]; now: number }) {
  const place = (at: number): string => (100 * Math.max(0, Math.min(7 * day, at - now))) / (7 * day) + "%";
  const days = Array.from({ length: 7 }, (_, i) => {
    const d = new Date(now * 1000);
    d.setHours(0, 0, 0, 0);
    d.setDate(d.getDate() + i + 1);
    return d;
  });
  return (
    <div class="week" aria-hidden="true">
      <div class="bar">{spans.map(([from, to]) => <span key={from} style={{ left: place(from), width: `calc(${place(to)} - ${place(from)})` }} />)}</div>
      {days.map((d) => <small key={d.getTime()} style={{ left: place(d.getTime() / 1000) }}>{d.toLocaleDateString(language === "en" ? "en-GB" : language, { weekday: "short" })}</small>)}
    </div>
  );
}

/** budget describes a budget in words. */
export function budget(b: { nodes: string; reasons?: string[] }): string {
  const n = Number(b.nodes);
  const most = t(b.nodes === "0" || b.nodes === "0%" ? "No node" : Number.isNaN(n) ? `At most ${b.nodes} of the nodes at once` : `At most ${plural(n, "node")} at once`);
  return `${most}, ${t(`for ${b.reasons?.length ? b.reasons.join(" and ") : "any reason"}`)}`;
}

/** mostNamed is how many pools are named where there may be many. */
export const mostNamed = 5;

/** Launchable shows what pools without nodes may launch, and up to which limits. */
export function Launchable({ names, now }: { names: string[]; now: number }) {
  const offers = useOnce<Offers>("/api/offers", names.length > 0), pools = useOnce<Pool[]>("/api/pools", names.length > 0);
  const limits = (name: string) => (pools && typeof pools !== "string" && pools.find((p) => p.name === name)?.limits) || [];
  return (
    <dl>
      {names.slice(0, mostNamed).map((name) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd><MayLaunch pool={name} offers={offers} now={now} />{limits(name).map((l) => <Limit key={l.resource} {...l} />)}</dd>
        </div>
      ))}
    </dl>
  );
}

function MayLaunch({ pool, offers, now }: { pool: string; offers: Offers | string | null; now: number }) {
  if (offers === null) return <span role="status">{t("Asking the engine…")}</span>;
  if (typeof offers === "string") return <span class="faint">{t("not known")}: {offers}</span>;
  const o = offers.pools.find((o) => o.pool === pool);
  if (!o) return <span class="faint">{t("not known")}</span>;
  const from = (x: Offering): string => `${perHour(x.dollarsPerHour * 1e6)}/h, ${[x.type, x.capacityType, x.zone].filter(Boolean).join(" ")}`;
  return (
    <>
      <div>{t(`${o.allowed} of the ${plural(o.offered, "type")} of its node class`)}{o.available < o.allowed && "; " + t(`${o.available} available now`)}</div>
      {o.cheapest && o.dearest && <><div>{t(`from ${from(o.cheapest)}`)}</div><div>{t(`to ${from(o.dearest)}`)}</div></>}
      {offers.backoffKnown && !o.exhaustedOf && <div class="faint">{t("The cloud has refused none of them lately.")}</div>}
      {o.exhausted && (
        <details>
          <summary class="waits">{t(`${plural(o.exhaustedOf ?? 0, "offering")} the cloud had no capacity for`)}</summary>
          <ul class="budgets">
            {o.exhausted.map((x) => <li key={x.type + x.zone + x.capacityType}>{x.type} {x.capacityType} {x.zone}, {t(`tried again in ${span(Date.parse(x.retryAt) / 1000 - now)}`)}</li>)}
            {(o.exhaustedOf ?? 0) > o.exhausted.length && <li>{t(`and ${o.exhaustedOf! - o.exhausted.length} more`)}</li>}
          </ul>
        </details>
      )}
    </>
  );
}
