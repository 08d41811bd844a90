// What a change would do to the cluster: the server forecasts it as nodeless plan does, and changes nothing.

import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "./language";
import { request } from "./request";
import { base } from "./source";
import { dollars, perHour, plural } from "./text";

interface NodeRow {
  name: string;
  type?: string;
  zone?: string;
  capacityType?: string;
  dollarsPerHour: number;
}

interface Step {
  afterSeconds: number;
  what: string;
  method?: string;
  goes?: NodeRow[];
  comes?: NodeRow[];
  pods: number;
  budget?: string;
  why?: string;
  anyway?: boolean;
}

interface State {
  nodes: number;
  dollarsPerMonth: number;
}

interface Outcome {
  changes: string[];
  before: State;
  unchanged: State;
  after: State;
  seconds: number;
  settled: boolean;
  differs: boolean;
  steps: Step[] | null;
  evictions: { pod: string; node: string; afterSeconds: number; anyway?: boolean }[] | null;
  removed: NodeRow[] | null;
  added: NodeRow[] | null;
  unplaced: { name: string; why: string; before?: boolean }[] | null;
  kept: { name: string; why: string; before?: boolean }[] | null;
  daemonsPending: { daemonSet: string; node: string; why: string; then: string; before?: boolean }[] | null;
  assumed: string[] | null;
}

const mostListed = 200;
const words = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

export function WhatIf() {
  const [manifests, setManifests] = useState("");
  const [deletes, setDeletes] = useState("");
  const [scales, setScales] = useState("");
  const [answer, set] = useState<Outcome | string | null>(null);
  const [asking, setAsking] = useState(false);
  const stop = useRef<AbortController | null>(null);
  useEffect(() => () => stop.current?.abort(), []);
  const send = async (e: Event) => {
    e.preventDefault();
    stop.current?.abort();
    const mine = (stop.current = new AbortController());
    setAsking(true);
    set(null);
    try {
      const r = await request(base + "/api/whatif", {
        method: "POST", headers: { "Content-Type": "application/json" }, signal: mine.signal,
        body: JSON.stringify({ manifests, deletes: words(deletes), scales: words(scales) }),
      });
      const body = (await r.json()) as Outcome & { error?: string };
      set(r.ok ? body : t(body.error ?? `status ${r.status}`));
    } catch (e) {
      if (!mine.signal.aborted) set(String(e));
    } finally {
      if (stop.current === mine) setAsking(false);
    }
  };
  const read = async (files: FileList | null) => {
    const texts = await Promise.all([...(files ?? [])].map((f) => f.text()));
    setManifests(texts.join("\n---\n"));
  };
  return (
    <main class="screen whatif">
      <h2>{t("What would change if …")}</h2>
      <p>{t("The server simulates it with the engine, in virtual time. Nothing in the cluster changes.")}</p>
      <form onSubmit={(e) => void send(e)} aria-label={t("What if")}>
        <label class="wide">
          <span>{t("these manifests were applied (NodePool, EC2NodeClass, NodeOverlay, DaemonSet, Deployment)")}</span>
          <textarea rows={9} spellcheck={false} value={manifests} placeholder={"apiVersion: karpenter.sh/v1\nkind: NodePool\n…"} onInput={(e) => setManifests(e.currentTarget.value)} />
        </label>
        <label><span>{t("from files")}</span> <input type="file" multiple accept=".yaml,.yml,.json" onChange={(e) => void read(e.currentTarget.files)} /></label>
        <label><span>{t("these were deleted")}</span> <input value={deletes} placeholder="nodepool/old daemonset/kube-system/agent" onInput={(e) => setDeletes(e.currentTarget.value)} /></label>
        <label><span>{t("these had so many pods")}</span> <input value={scales} placeholder="deployment/shop/web=50" onInput={(e) => setScales(e.currentTarget.value)} /></label>
        <div class="row">
          <button type="submit" disabled={asking || !(manifests.trim() || deletes.trim() || scales.trim())}>{t("Forecast")}</button>
          {asking && <button type="button" onClick={() => stop.current?.abort()}>{t("Stop")}</button>}
        </div>
      </form>
      <section aria-live="polite" aria-busy={asking} aria-label={t("Forecast")}>
        {asking && <p>{t("Reading the cluster and simulating…")}</p>}
        {typeof answer === "string" && <p class="bad" role="alert">{answer}</p>}
        {answer && typeof answer !== "string" && <Told o={answer} />}
      </section>
    </main>
  );
}

function Told({ o }: { o: Outcome }) {
  const steps = o.steps ?? [], evictions = o.evictions ?? [], unplaced = o.unplaced ?? [], kept = o.kept ?? [];
  const cost = o.after.dollarsPerMonth - o.before.dollarsPerMonth;
  return (
    <>
      <h3>{t("Changed")}</h3>
      <ul>{o.changes.map((c) => <li key={c}>{c}</li>)}</ul>
      {!o.differs && <p><strong>{t("Nothing would be different.")}</strong></p>}
      <div class="scroll"><table class="list" data-testid="forecast">
        <thead><tr><td /><th scope="col">{t("now")}</th><th scope="col">{t("then")}</th><th scope="col">{t("then, without the change")}</th></tr></thead>
        <tbody>
          <tr><th scope="row">{t("nodes")}</th><td>{o.before.nodes}</td><td>{o.after.nodes}</td><td>{o.unchanged.nodes}</td></tr>
          <tr><th scope="row">{t("$ a month")}</th><td>{money(o.before.dollarsPerMonth)}</td><td>{money(o.after.dollarsPerMonth)}{Math.abs(cost) >= 0.005 && ` (${cost > 0 ? "+" : "−"}${money(Math.abs(cost))})`}</td><td>{money(o.unchanged.dollarsPerMonth)}</td></tr>
        </tbody>
      </table></div>
      <p>{t(`${plural((o.removed ?? []).length, "node")} would be removed and ${(o.added ?? []).length} launched within about ${span(o.seconds)}; ${plural(evictions.length, "pod")} would be evicted, ${unplaced.length} would be unschedulable.`)}{!o.settled && " " + t("More would happen after a day.")}</p>
      {steps.length > 0 && (
        <>
          <h3>{t("Then")}</h3>
          <div class="scroll"><table class="list">
            <thead><tr>{["After", "What", "Removed", "Launched", "Pods", "Why, and the budget"].map((title) => <th scope="col" key={title}>{t(title)}</th>)}</tr></thead>
            <tbody>
              {steps.slice(0, mostListed).map((s, i) => (
                <tr key={i}>
                  <td>{span(s.afterSeconds)}</td><th scope="row">{t(s.what)}{s.method && `, ${s.method}`}{anyway(s.anyway)}</th>
                  <td>{(s.goes ?? []).map((m) => m.name).join(", ")}</td><td>{(s.comes ?? []).map(node).join(", ")}</td><td>{s.pods}</td>
                  <td>{[s.why, s.budget].filter(Boolean).map((text) => t(text!)).join("; ")}</td>
                </tr>
              ))}
            </tbody>
          </table></div>
        </>
      )}
      <Named title="Unschedulable" list={unplaced.map((u) => `${u.name}: ${t(u.why)}${anyway(u.before)}`)} />
      <Named title="DaemonSet pods that would stay Pending" list={(o.daemonsPending ?? []).map((d) => `${t(`${d.daemonSet} on ${d.node}`)}: ${t(d.why)}. ${t(d.then)}${anyway(d.before)}`)} />
      <Named title="Drifted, and kept" list={kept.map((k) => `${k.name}: ${t(k.why)}${anyway(k.before)}`)} />
      <Named title="Evicted" list={evictions.map((e) => `${t(`${e.pod} from ${e.node} after ${span(e.afterSeconds)}`)}${anyway(e.anyway)}`)} />
      {steps.length > mostListed && <p>{t(`and ${steps.length - mostListed} more steps; nodeless plan -o wide lists all.`)}</p>}
      {(o.assumed ?? []).map((text) => <p key={text}><small>{t(text)}</small></p>)}
    </>
  );
}

function Named({ title, list }: { title: string; list: string[] }) {
  if (list.length === 0) return null;
  return (
    <details open={list.length <= 10}>
      <summary>{t(title)} ({list.length})</summary>
      <ul>{list.slice(0, mostListed).map((text, i) => <li key={i}>{text}</li>)}</ul>
      {list.length > mostListed && <p>{t(`and ${list.length - mostListed} more; nodeless plan -o wide lists all.`)}</p>}
    </details>
  );
}

const anyway = (is?: boolean): string => (is ? ` ${t("(also without the change)")}` : "");
const money = (n: number): string => dollars(n * 1e6, 2);
const node = (m: NodeRow): string => [m.type, m.capacityType, m.zone && `in ${m.zone}`, `at ${perHour(m.dollarsPerHour * 1e6)}/h`].filter(Boolean).join(" ");

function span(seconds: number): string {
  const s = Math.round(seconds);
  if (s < 120) return `${s}s`;
  if (s < 7200) return `${Math.floor(s / 60)}m${s % 60 ? `${s % 60}s` : ""}`;
  return `${Math.floor(s / 3600)}h${Math.floor((s % 3600) / 60)}m`;
}
