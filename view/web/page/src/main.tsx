import { render } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Addresses } from "./addresses";
import { Cluster } from "./cluster";
import { Fleet, useClusters } from "./clusters";
import { Costs } from "./costs";
import { Decisions } from "./decisions";
import { Detail } from "./detail";
import { parse, steps, write, type Choice } from "./fragment";
import { Header, useNarrow } from "./header";
import { Hosts } from "./hosts";
import { divides, type Found, type Parts } from "./layout";
import { load, t } from "./language";
import type { Moves } from "./moves";
import { useNews } from "./news";
import { Nodes } from "./nodes";
import { Palette } from "./palette";
import { Pending } from "./pending";
import { Pools } from "./pools";
import { Savings } from "./savings";
import { ask, Source } from "./source";
import { clock } from "./text";
import { Timeline } from "./timeline";
import { useUsage } from "./usage";
import { WhatIf } from "./whatif";
import "uplot/dist/uPlot.min.css";
import "./style.css";

function Page() {
  const [version, setVersion] = useState(0);
  const [choice, setChoice] = useState<Choice>(() => parse(location.hash));
  const source = useMemo(() => {
    let asked = false; // draw once per screen frame
    return new Source(() => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => ((asked = false), setVersion((v) => v + 1)));
    });
  }, []);
  const current = useRef(choice);
  current.current = choice;

  useEffect(() => {
    source.start();
    if (choice.at) void source.go(choice.at);
    const changed = () => {
      const c = parse(location.hash);
      if (c.at !== current.current.at) void source.go(c.at);
      setChoice(c);
    };
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    if (!choice.reload) return;
    const timer = setTimeout(() => location.reload(), Math.min(choice.reload * 1000, 2 ** 31 - 1)); // a longer time would be none
    return () => clearTimeout(timer);
  }, [choice.reload]);

  const choose = (change: Partial<Choice>) => {
    const next = { ...current.current, ...change };
    const opens = steps(current.current, next);
    current.current = next;
    setChoice(next);
    const hash = write(next);
    if (opens) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  };
  const clusters = useClusters();
  const [palette, setPalette] = useState(0); // the number of the open one; 0 = closed
  const opened = useRef(0);
  const find = () => setPalette((n) => n || ++opened.current);
  useLayoutEffect(() => { // before the first paint, so that no key is lost
    const typed = (e: KeyboardEvent) => {
      if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey) || e.shiftKey || e.altKey) return;
      e.preventDefault();
      find();
    };
    document.addEventListener("keydown", typed);
    return () => document.removeEventListener("keydown", typed);
  }, []);
  const narrow = useNarrow();
  const state = source.shown;
  const past = source.past !== null;
  state.moves = useMoves(past ? state.at : 0, source.decided);
  state.usage = useUsage(!past);
  const found = useFollowed<Found>(choice.q.trim() && `/api/find?q=${encodeURIComponent(choice.q)}`, past, source.live.at);
  const parts = useFollowed<Parts>(choice.view === "cluster" && divides(choice.group) ? `/api/parts?by=${choice.group}` : "", past, source.live.at);
  const open = choice.node !== "" || choice.pod !== "";
  return (
    <>
      {!choice.dashboard && <Header source={source} state={state} clusters={clusters} choice={choice} choose={choose} find={find} />}
      {palette > 0 && <Palette key={palette} state={state} clusters={clusters} choice={choice} choose={choose} close={() => setPalette((n) => (n === palette ? 0 : n))} />}
      {source.lost > 0 && <p class="note bad" role="alert">{t(`Disconnected since ${clock(source.lost)}: this is the state of that moment. Reconnecting…`)}</p>}
      {past && <p class="note" role="status">{t(`The state at ${clock(state.at)}.`)}</p>}
      {state.totals.notes?.map((n) => <p class="note" key={n}>{t(n)}</p>)}
      <div class="middle">
        {choice.view === "fleet" ? <Fleet clusters={clusters} />
          : state.at === 0 ? <main><p class="empty" role="status">{t("Reading the cluster…")}</p></main>
          : choice.view === "nodes" ? <Nodes state={state} version={state.version} choice={choice} found={found} choose={choose} narrow={narrow} />
          : choice.view === "pools" ? <Pools state={state} choice={choice} choose={choose} past={past} />
          : choice.view === "pending" ? <Pending state={state} choose={choose} />
          : choice.view === "decisions" ? <Decisions version={source.decided} now={source.live.now} since={source.points[0]?.[1] ?? Infinity} choice={choice} choose={choose} />
          : choice.view === "costs" ? <Costs resources={state.resources} choice={choice} choose={choose} past={past} narrow={narrow} />
          : choice.view === "savings" ? <Savings version={source.decided} choice={choice} choose={choose} narrow={narrow} />
          : choice.view === "whatif" ? <WhatIf />
          : choice.view === "addresses" ? <Addresses choice={choice} choose={choose} past={past} narrow={narrow} />
          : choice.view === "hosts" ? <Hosts choice={choice} choose={choose} past={past} />
          : <main class="map"><Cluster state={state} version={state.version} choice={choice} found={found} parts={parts} choose={choose} past={past} /></main>}
        {open && <Detail state={state} choice={choice} choose={choose} past={past} />}
      </div>
      {!choice.dashboard && <Timeline source={source} version={version} view={choice.view} at={choice.at} span={choice.span} choose={choose} />}
    </>
  );
}

/**
 * useFollowed asks for a path: at once when the path changes, and every two seconds while the state changes, also after the last change. It
 * returns null for the path "".
 */
function useFollowed<T>(path: string, past: boolean, at: number): T | null {
  const [answer, set] = useState<T | null>(null);
  const asked = useRef({ path: "", at: 0 });
  useEffect(() => {
    if (!path || past) {
      asked.current = { path: "", at: 0 };
      set(null);
      return;
    }
    const since = asked.current.path === path ? performance.now() - asked.current.at : Infinity;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      asked.current = { path, at: performance.now() };
      ask<T>(path, stop.signal).then(set, () => {});
    }, Math.max(150, 2000 - since));
    return () => (clearTimeout(timer), asked.current.path === path || stop.abort());
  }, [path, past, at]);
  return answer;
}

/** useMoves asks which moves of pods are planned, or were at a moment; none if unknown. */
function useMoves(at: number, decided: number): Moves {
  const answer = useNews<Record<string, { to: string; pods: number }[]>>(at ? `/api/moves?t=${at}` : "/api/moves", decided);
  return useMemo(() => new Map(answer && typeof answer === "object" ? Object.entries(answer) : []), [answer]);
}

void load().then(() => render(<Page />, document.getElementById("page")!));
