// Where nodes and their pods get IP addresses: subnets, what the next nodes take from them, and what nodes hold in
// reserve.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { Choice } from "./fragment";
import { t } from "./language";
import { useAnswer } from "./news";
import { Order, Short, type Field } from "./table";
import { clock, plural } from "./text";

interface Subnet {
  id: string;
  zone?: string;
  cidr?: string;
  total?: number;
  free: number | null;
  scattered?: number; // free too, but outside free blocks
  pools: string[];
}

interface Launch {
  pool: string;
  zone: string;
  subnet: string;
  free: number;
  type: string;
  least: number;
  nodes: number;
}

interface Warm {
  pool: string;
  type: string;
  zone: string;
  nodes: number;
  pods: number;
  enis: number;
  maxEnis: number;
  prefixes: number;
  held: number;
  room: number;
  growth: number;
}

interface Answer {
  controller: boolean; // whether the answer comes from the controller's process
  at: string | null; // null: free addresses are unknown
  targets?: { variables: string[]; prefixes: boolean; customNetwork: boolean };
  subnets: Subnet[];
  launches: Launch[];
  warm: Warm[];
  short: { name: string; pods: number; short: number }[];
  shortOf: number;
  growth: { zone: string; growth: number; free: number }[];
  notKnown?: string[];
}

interface Props {
  choice: Choice;
  choose: (change: Partial<Choice>) => void;
  past: boolean;
  narrow: boolean;
}

const again = 10_000; // milliseconds between two requests
const block = 16; // addresses of a prefix, a /28

export function Addresses({ past, ...props }: Props) {
  return (
    <main class="screen addresses">
      <h2>{t("Addresses")}</h2>
      {past ? <p role="status">{t("Addresses are shown live only.")}</p> : <Live {...props} />}
    </main>
  );
}

function Live(props: Omit<Props, "past">) {
  const a = useAnswer<Answer>("/api/addresses", again);
  if (a === null) return <p role="status">{t("Asking the engine…")}</p>;
  if (typeof a === "string") return <p class="bad" role="alert">{a}</p>;
  return <Known a={a} {...props} />;
}

function Known({ a, choice, choose, narrow }: { a: Answer } & Omit<Props, "past">) {
  const pool = choice.pool, of = <T extends { pool: string }>(list: T[]): T[] => (pool ? list.filter((x) => x.pool === pool) : list);
  const [subnets, launches, warm] = useMemo(() => [subnetFields(a, choose), launchFields(choose), warmFields(a, choose)], [a]);
  const shared = { sort: choice.sort, choose, narrow };
  const ours = pool ? a.subnets.filter((s) => s.pools.includes(pool)) : a.subnets;
  return (
    <>
      {pool && <p>{t(`Only NodePool ${pool}.`)} <button type="button" class="link" onClick={() => choose({ pool: "" })}>{t("Show all")}</button></p>}
      <Alarms a={a} pool={pool} choose={choose} />
      {narrow && <p><Order columns={[...subnets, ...launches, ...warm].filter((c, i, all) => all.findIndex((o) => o.key === c.key) === i)} sort={choice.sort} choose={choose} /></p>}
      <h3>{t("Subnets")}</h3>
      {ours.length === 0 ? <p role="status">{t(pool ? "No subnets are known: those of this NodePool's node class are not resolved yet, or it has none in AWS." : "No subnets are known: no NodePool's node class is resolved yet, or they have none in AWS.")}</p>
        : <Short title={t("Subnets")} rows={ours} columns={subnets} {...shared} />}
      <p class="faint">{t(a.at ? `Free addresses are those that EC2 counted last, less what nodes in flight are about to take (${clock(Date.parse(a.at))}).`
        : a.controller ? "Not known: how many addresses are free, and for how many nodes they suffice. Only the VPC CNI says what nodes take."
        : "Not known here: how many addresses are free, and for how many nodes they suffice. See the controller's own page: nodeless up or nodeless run --page.")}
      {a.targets?.prefixes && <>{" "}{t(`Pods get blocks of ${block} addresses (/28): free addresses outside free blocks are scattered, and of use only to nodes whose pods get single addresses.`)}</>}</p>
      {a.at && <>
        <h3>{t("The next nodes")}</h3>
        {of(a.launches).length === 0 ? <p role="status">{t("Subnets limit no NodePool.")}</p> : <Short title={t("The next nodes")} rows={of(a.launches)} columns={launches} {...shared} />}
      </>}
      <h3>{t("Warm pools of nodes")}</h3>
      {!a.targets ? <p role="status">{t("What nodes hold is not known: no DaemonSet aws-node of the VPC CNI with IPv4 runs on all nodes.")}</p> : (
        <>
          <p class="faint">{t(`The VPC CNI is set to ${a.targets.variables.join(", ")}. What nodes hold is computed from that, their types and their pods; which interfaces they really have, only EC2 knows.`)}</p>
          {of(a.warm).length === 0 ? <p role="status">{t(pool ? `No node has interfaces of EC2 in NodePool ${pool}.` : "No node has interfaces of EC2.")}</p> : <Short title={t("Warm pools of nodes")} rows={of(a.warm)} columns={warm} {...shared} />}
        </>
      )}
      {a.notKnown?.map((text) => <p class="faint" key={text}>{t("Unknown")}: {t(text)}</p>)}
    </>
  );
}

/** Alarms shows which NodePools and nodes lack addresses. */
function Alarms({ a, pool, choose }: { a: Answer; pool: string; choose: Props["choose"] }) {
  const starved = a.launches.filter((l) => l.nodes === 0 && (!pool || l.pool === pool)), zones = a.growth.filter((z) => z.growth > z.free);
  if (starved.length + zones.length + a.shortOf === 0) {
    return a.at && a.targets ? <p class="good">✓ {t("No NodePool and no node lacks addresses.")}</p> : null;
  }
  return (
    <div class="shape">
      <h3>{t("Who lacks addresses")}</h3>
      <ul aria-label={t("Lacking addresses")}>
        {starved.map((l) => (
          <li key={l.pool + l.zone} class="bad"><span>✗</span> <div>{t(`NodePool ${l.pool} can launch no node in ${l.zone}: ${l.subnet} has ${plural(l.free, "free address", "free addresses")}, and ${l.type}, which takes the fewest, takes ${l.least}.`)}</div></li>
        ))}
        {zones.map((z) => (
          <li key={z.zone} class="waits"><span>▲</span> <div>{t(`${z.zone}: when its nodes are full of pods they take ${count(z.growth)} more addresses, and its subnets have ${count(z.free)}.`)}</div></li>
        ))}
        {a.shortOf > 0 && (
          <li class="waits"><span>▲</span> <div>{t(`${plural(a.shortOf, "node")} may get more pods than ${a.shortOf === 1 ? "it has" : "they have"} addresses for:`)}{" "}
            {a.short.map((n, i) => <span key={n.name}>{i > 0 && ", "}<NodeLink name={n.name} choose={choose} /> ({t(`lacks ${n.short} of ${n.pods}`)})</span>)}
            {a.shortOf > a.short.length && ", " + t(`and ${a.shortOf - a.short.length} more`)}
          </div></li>
        )}
      </ul>
    </div>
  );
}

function NodeLink({ name, choose }: { name: string; choose: Props["choose"] }) {
  return <button type="button" class="link" onClick={() => choose({ view: "nodes", node: name, pod: "" })}>{name}</button>;
}

/** PoolLinks are links to this screen for single NodePools. */
function PoolLinks({ names, choose, none }: { names: string[]; choose: Props["choose"]; none: string }) {
  if (names.length === 0) return <span class="faint">{none}</span>;
  return <>{names.map((n, i) => <span key={n}>{i > 0 && ", "}<button type="button" class="link" title={n} onClick={() => choose({ pool: n })}>{n}</button></span>)}</>;
}

/** Share shows a part of a total, as a bar and in numbers. */
function Share({ used, of }: { used: number; of: number }) {
  const part = of > 0 ? used / of : 0;
  return (
    <span class="use">
      <span class="bar"><span class={part >= 0.9 ? "near" : undefined} style={{ width: Math.min(100, 100 * part) + "%" }} /></span>
      <span>{count(used)} / {count(of)}</span>
    </span>
  );
}

const count = (n: number): string => n.toLocaleString("en-US");
const notKnown = (): ComponentChildren => <span class="faint">{t("not known")}</span>;
const number = <T,>(key: string, title: string, width: number, of: (x: T) => number, show: (n: number) => ComponentChildren = count): Field<T> => ({
  key, title, width, number: true, by: of, show: (x) => show(of(x)),
});
const text = <T,>(key: string, title: string, width: number, of: (x: T) => string): Field<T> => ({
  key, title, width, by: of, show: (x) => (of(x) ? <span title={of(x)}>{of(x)}</span> : notKnown()),
});

function subnetFields(a: Answer, choose: Props["choose"]): Field<Subnet>[] {
  const used = (s: Subnet): number => (s.total && s.free !== null ? s.total - s.free - (s.scattered ?? 0) : -1);
  return [
    text("subnet", "Subnet", 15, (s) => s.id),
    text("zone", "Zone", 7, (s) => s.zone ?? ""),
    text("cidr", "CIDR", 9, (s) => s.cidr ?? ""),
    number("free", "Free", 6, (s) => s.free ?? -1, (n) => (n < 0 ? notKnown() : count(n))),
    { key: "used", title: "Used", width: 11, by: (s) => used(s) / (s.total || 1), show: (s) => (used(s) < 0 ? notKnown() : <Share used={used(s)} of={s.total!} />) },
    ...(a.targets?.prefixes ? [
      number<Subnet>("blocks", "Free /28", 6, (s) => (s.free === null ? -1 : Math.floor(s.free / block)), (n) => (n < 0 ? notKnown() : count(n))),
      number<Subnet>("scattered", "Scattered", 6, (s) => s.scattered ?? 0),
    ] : []),
    {
      key: "pools", title: "NodePools", width: 14, by: (s) => s.pools.join(),
      show: (s) => <PoolLinks names={s.pools} choose={choose} none={t(a.targets?.customNetwork ? "the nodes' own addresses" : "none")} />,
    },
  ];
}

function launchFields(choose: Props["choose"]): Field<Launch>[] {
  return [ // for the type that takes the fewest addresses
    { key: "pool", title: "NodePool", width: 14, by: (l) => l.pool, show: (l) => <PoolLinks names={[l.pool]} choose={choose} none="" /> },
    text("zone", "Zone", 7, (l) => l.zone),
    text("subnet", "Subnet", 15, (l) => l.subnet),
    number("free", "Free", 6, (l) => l.free),
    number("least", "A node takes", 8, (l) => l.least),
    text("type", "such as", 8, (l) => l.type),
    number("fit", "Nodes that fit", 8, (l) => l.nodes, (n) => (n === 0 ? <span class="bad">✗ {t("none")}</span> : count(n))),
  ];
}

function warmFields(a: Answer, choose: Props["choose"]): Field<Warm>[] {
  return [
    { key: "pool", title: "NodePool", width: 14, by: (w) => w.pool, show: (w) => <PoolLinks names={w.pool ? [w.pool] : []} choose={choose} none={t("none")} /> },
    text("type", "Type", 8, (w) => w.type),
    text("zone", "Zone", 7, (w) => w.zone),
    number("nodes", "Nodes", 5, (w) => w.nodes),
    { key: "enis", title: "ENIs", width: 8, by: (w) => w.enis, show: (w) => <Share used={w.enis} of={w.maxEnis} /> },
    ...(a.targets?.prefixes ? [number<Warm>("prefixes", "Prefixes", 6, (w) => w.prefixes)] : []),
    number("held", "Held", 6, (w) => w.held),
    number("pods", "Pods use", 6, (w) => w.pods),
    number("spare", "To spare", 6, (w) => w.held - w.pods),
    number("growth", "More when full", 9, (w) => w.growth),
  ];
}
