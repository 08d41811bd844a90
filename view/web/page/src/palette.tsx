// Ctrl-K: type a few letters of a screen, cluster, node, pool, namespace, pod or language, and press Enter to go
// there.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { pageOf, type Clusters } from "./clusters";
import type { Choice, View } from "./fragment";
import { screens, titles } from "./header";
import { choose as chooseLanguage, language, languages, t } from "./language";
import { ask } from "./source";
import type { ClusterState } from "./state";
import { plural } from "./text";

interface Names {
  namespaces: string[];
  pods: { namespace: string; name: string; node?: string }[];
}

interface Place {
  kind: string;
  name: string;
  about?: string | undefined;
  to: Partial<Choice>;
  page?: string; // instead of to: the address of another cluster's page
  language?: string; // instead of to: a language for the page
}

interface Props {
  state: ClusterState;
  clusters: Clusters | null;
  choice: Choice;
  choose: (change: Partial<Choice>) => void;
  close: () => void;
}

const most = 8; // per kind
const about: Partial<Record<View, string>> = { addresses: "subnets, warm pools", hosts: "microVM hosts", fleet: "all clusters" }; // these words also find a screen

export function Palette({ state, clusters, choice, choose, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [pools, setPools] = useState<string[]>([]);
  const [names, setNames] = useState<Names>({ namespaces: [], pods: [] });
  useLayoutEffect(() => { // open before the browser delivers the next key, so that no letter is lost
    const before = document.activeElement as HTMLElement | null;
    dialog.current!.showModal();
    ask<{ name: string }[]>("/api/pools").then((p) => setPools(p.map((x) => x.name).filter(Boolean)), () => {});
    return () => before?.isConnected && before.focus();
  }, []);
  useEffect(() => {
    if (!text.trim()) return setNames({ namespaces: [], pods: [] });
    const stop = new AbortController();
    let timer = 0;
    const look = (after: number) => (timer = setTimeout(() => {
      ask<Names>(`/api/names?q=${encodeURIComponent(text)}`, stop.signal).then(setNames, () => stop.signal.aborted || look(1000));
    }, after));
    look(100);
    return () => (clearTimeout(timer), stop.abort());
  }, [text]);
  const places = useMemo(() => find(text, state, clusters, choice, pools, names), [clusters, text, state, state.version, choice.view, pools, names]);
  const chosen = Math.min(at, places.length - 1);
  useEffect(() => dialog.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [chosen, text]);

  const go = (p: Place | undefined) => {
    if (!p) return;
    close();
    if (p.page) location.assign(p.page);
    else if (p.language) chooseLanguage(p.language);
    else choose(p.to);
  };
  const typed = (e: KeyboardEvent) => {
    const to = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, PageDown: chosen + most, PageUp: chosen - most }[e.key];
    if (to !== undefined) {
      e.preventDefault();
      const n = places.length; // single steps wrap around, pages do not
      setAt(Math.abs(to - chosen) === 1 ? (to + n) % Math.max(1, n) : Math.max(0, Math.min(n - 1, to)));
    } else if (e.key === "Enter") {
      e.preventDefault();
      go(places[chosen]);
    } else if (e.key === "Escape") { // the browser's close event comes only with the next frame, and a Ctrl-K before it would be lost
      e.preventDefault();
      close();
    }
  };
  return (
    <dialog class="palette" ref={dialog} aria-label={t("Go to")} onClose={close} onKeyDown={typed} onClick={(e) => e.target === dialog.current && close()}>
      <input
        type="text" role="combobox" aria-expanded={places.length > 0} aria-controls="places" aria-autocomplete="list" aria-activedescendant={places.length > 0 ? `place-${chosen}` : undefined}
        aria-label={t("Screen, node, pool, namespace or pod")} placeholder={t("Screen, node, pool, namespace or pod")} autocomplete="off" spellcheck={false} autofocus
        value={text} onInput={(e) => (setText(e.currentTarget.value), setAt(0))}
      />
      <ul role="listbox" id="places" aria-label={t("Matches")}>
        {places.map((p, i) => (
          <li key={p.kind + p.name} id={`place-${i}`} role="option" aria-selected={i === chosen} onClick={() => go(p)} onMouseMove={() => i !== chosen && setAt(i)}>
            <small>{t(p.kind)}</small><span>{p.name}</span>{p.about && <small>{t(p.about)}</small>}
          </li>
        ))}
      </ul>
      <p role="status" class={places.length > 0 ? "unseen" : "faint"}>{places.length > 0 ? plural(places.length, "match", "matches") : t("Nothing has such a name.")}</p>
    </dialog>
  );
}

/** find returns the places whose names contain all words; those that begin with the text come first. */
function find(text: string, state: ClusterState, clusters: Clusters | null, choice: Choice, pools: string[], names: Names): Place[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (name: string): boolean => words.every((w) => name.toLowerCase().includes(w));
  const first = (kind: string, all: string[], to: (name: string) => Partial<Choice>): Place[] => {
    const some = all.filter(has).sort((a, b) => Number(b.toLowerCase().startsWith(words[0] ?? "")) - Number(a.toLowerCase().startsWith(words[0] ?? "")));
    return some.slice(0, most).map((name) => ({ kind, name, to: to(name) }));
  };
  const places = screens(clusters).filter((v) => has(`${titles[v]} ${t(titles[v])} ${about[v] ?? ""}`)).map((v): Place => ({ kind: "screen", name: t(titles[v]), about: about[v], to: { view: v, node: "", pod: "" } }));
  const details = choice.view === "cluster" || choice.view === "nodes" ? choice.view : "nodes"; // a screen that shows the node beside its details
  const tongues = Object.entries(languages).filter(([tag, name]) => tag !== language && has(`Language ${t("Language")} ${name}`)).map(([tag, name]): Place => ({ kind: "language", name, to: {}, language: tag }));
  if (words.length === 0) return [...places, ...first("pool", pools, (pool) => ({ view: "pools", pool, node: "", pod: "" })), ...tongues];
  const pods = names.pods.slice(0, most).map((p): Place => ({
    kind: "pod", name: `${p.namespace}/${p.name}`, about: p.node ? `on ${p.node}` : "pending",
    to: p.node ? { view: details, node: p.node, pod: `${p.namespace}/${p.name}` } : { view: "pending", node: "", pod: `${p.namespace}/${p.name}` },
  }));
  return [
    ...places,
    ...first("cluster", clusters?.names ?? [], () => ({})).map((p) => ({ ...p, page: pageOf(clusters!, p.name, choice.view) })),
    ...first("pool", pools, (pool) => ({ view: "pools", pool, node: "", pod: "" })),
    ...first("node", [...state.nodes.values()].map((m) => m.name), (node) => ({ view: details, node, pod: "" })),
    ...first("namespace", names.namespaces, (n) => ({ view: "cluster", q: `namespace=${n}`, node: "", pod: "" })),
    ...pods,
    ...tongues,
  ];
}
