import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Switch, type Clusters } from "./clusters";
import { choose as chooseLanguage, language, languages, t } from "./language";
import { scales, views, type Choice, type View } from "./fragment";
import { ask, base, type Source } from "./source";
import { perHour, perMonth, plural } from "./text";
import type { ClusterState } from "./state";

interface Props {
  source: Source;
  state: ClusterState;
  clusters: Clusters | null;
  choice: Choice;
  choose: (change: Partial<Choice>) => void;
  find: () => void; // opens the palette
}

/** narrow is the width in pixels below which the page has one column; it is also in style.css. */
export const narrow = 700;

/** useNarrow reports whether the page has one column. */
export function useNarrow(): boolean {
  const query = useMemo(() => matchMedia(`(max-width: ${narrow - 1}px)`), []);
  const [is, set] = useState(query.matches);
  useEffect(() => {
    const changed = () => set(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return is;
}

export const titles: Record<View, string> = { cluster: "Cluster", nodes: "Nodes", pools: "Pools", pending: "Pending", decisions: "Decisions", costs: "Costs", savings: "Savings", whatif: "What if", addresses: "Addresses", hosts: "Hosts", fleet: "Fleet" };
const rare = new Set<View>(["costs", "savings", "whatif", "addresses", "hosts", "fleet"]); // behind More in a phone's navigation bar
/** screens returns the available screens: the fleet only if there are several clusters. */
export const screens = (clusters: Clusters | null): View[] => views.filter((v) => v !== "fleet" || clusters);

const filtered = new Set<View>(["cluster", "nodes"]);
const groups = ["", "pool", "zone", "type", "capacity", "status", "namespace", "workload"];
const orders = ["name", "age", "-price", "price", "-pods", "status"];

export function Header({ state, clusters, choice, choose, find }: Props) {
  const filter = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    const typed = (e: KeyboardEvent) => {
      if (e.key !== "/" || e.target instanceof HTMLInputElement || e.target instanceof HTMLTextAreaElement || !filter.current) return;
      e.preventDefault();
      filter.current.focus();
    };
    document.addEventListener("keydown", typed);
    return () => document.removeEventListener("keydown", typed);
  }, []);
  const [user, setUser] = useState("");
  useEffect(() => void ask<{ user: string }>("/api/who").then((w) => setUser(w.user), () => {}), []);
  const [open, setOpen] = useState(window.innerWidth >= narrow);
  const all = state.totals;
  const labels = useMemo(() => [...new Set(state.kinds.flatMap((k) => Object.keys(k.labels)))].sort(), [state.kinds, state.kinds.length]);
  const resources = state.resources.flatMap((r) => ["-" + r, r]);
  return (
    <header class="top">
      <h1>Nodeless</h1>
      {clusters && <Switch clusters={clusters} view={choice.view} />}
      <nav aria-label={t("Screens")}>
        {screens(clusters).map((v) => (
          <a key={v} href={v === "cluster" ? "#" : `#view=${v}`} class={rare.has(v) ? "rare" : undefined} aria-current={choice.view === v ? "page" : undefined} onClick={(e) => (e.preventDefault(), choose({ view: v }))}>
            {t(titles[v])}{v === "pending" && ` ${all.waiting}`}
          </a>
        ))}
        <a href={base + "/lite"} class="rare">{t("Tables")}</a>
        <button type="button" class="more" onClick={find}>{t("More")}</button>
      </nav>
      <button type="button" class="find" aria-keyshortcuts="Control+K Meta+K" onClick={find}>{t("Go to…")} <kbd>{/Mac|iP/.test(navigator.platform) ? "⌘K" : "Ctrl K"}</kbd></button>
      {user && <form method="post" action="/logout" class="who"><small>{user}</small> <button>{t("Log out")}</button></form>}
      <select class="language" aria-label={t("Language")} value={language} onChange={(e) => chooseLanguage(e.currentTarget.value)}>
        {Object.entries(languages).map(([tag, name]) => <option key={tag} value={tag} lang={tag}>{name}</option>)}
      </select>
      <p class="sums" data-testid="sums">
        <strong>{t(`${perHour(all.price)}/h · ${perMonth(all.price)}/month`)}</strong>{" · "}
        {[plural(all.nodes, "node"), all.onTheirWay > 0 && t(`${all.onTheirWay} launching`), all.going > 0 && t(`${all.going} being removed`), all.notReady > all.onTheirWay && t(`${all.notReady - all.onTheirWay} not ready`)].filter(Boolean).join(", ")}
        {" · "}{t(`${plural(all.running, "pod")} running, ${all.waiting} pending`)}
        {all.unpriced > 0 && " · " + t(`${all.unpriced} without a price`)}
      </p>
      <p class="meters" aria-hidden="true">
        {all.nodes > 0 && filtered.has(choice.view) && state.resources.slice(0, 2).map((r, i) => <Meter key={r} name={r} used={all.requests[i] ?? 0} of={all.allocatable[i] ?? 0} />)}
      </p>
      {filtered.has(choice.view) && (
        <button type="button" class="tools" aria-expanded={open} onClick={() => setOpen(!open)}>{t(choice.view === "cluster" ? "Filter and view" : "Filter")}</button>
      )}
      {filtered.has(choice.view) && open && (
        <form role="search" onSubmit={(e) => e.preventDefault()}>
          <label>
            <span>{t("Filter")}</span>{" "}
            <input ref={filter} type="search" value={choice.q} placeholder={t("word, !word, pool=…, label=…, namespace=…")} onInput={(e) => choose({ q: e.currentTarget.value })} />
          </label>
          {choice.view === "cluster" && <>
            <Select label={t("Group")} value={choice.group} set={(group) => choose({ group })} options={[...groups, ...labels]} />
            <Select label={t("Order")} value={choice.sort} set={(sort) => choose({ sort })} options={[...orders, ...resources]} />
            <Select label={t("Area")} value={choice.area} set={(area) => choose({ area })} options={["price", ...state.resources, "nodes"]} />
            <Select label={t("Shade by")} value={choice.color} set={(color) => choose({ color })} options={["pods", "price", ...state.resources]} />
            <label>
              <span>{t("Size")}</span>{" "}
              <input type="range" min={String(scales.least)} max={String(scales.most)} step="0.05" value={String(choice.scale)} onInput={(e) => choose({ scale: Number(e.currentTarget.value) })} />
            </label>
          </>}
        </form>
      )}
    </header>
  );
}

/** Meter shows a share as a bar and a number. */
function Meter({ name, used, of }: { name: string; used: number; of: number }) {
  const part = of > 0 ? Math.round((100 * used) / of) : 0;
  return <span class="meter"><small>{name}</small> <span class="bar"><span style={{ width: Math.min(100, part) + "%" }} /></span> <small>{part}%</small></span>;
}

function Select({ label, value, set, options }: { label: string; value: string; set: (v: string) => void; options: string[] }) {
  const all = options.includes(value) ? options : [...options, value];
  return (
    <label>
      <span>{label}</span>{" "}
      <select value={value} onChange={(e) => set(e.currentTarget.value)}>
        {all.map((o) => <option key={o} value={o}>{o === "" ? t("nothing") : o.startsWith("-") ? t(`${t(o.slice(1))}, largest first`) : t(o)}</option>)}
      </select>
    </label>
  );
}
