import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Addresses } from "./addresses";
import { Cluster } from "./cluster";
import { Fleet, useClusters } from "./clusters";
import { Decisions } from "./decisions";
import { Detail } from "./detail";
import { parse, steps, write, type Choice } from "./fragment";
import { Header, useNarrow } from "./header";
import { Hosts } from "./hosts";
import type { Found } from "./layout";
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
import { WhatIf } from "./whatif";
import "uplot/dist/uPlot.min.css";
import "./style.css";

function Page() {
  const [version, setVersion] = useState(0);
  const [choice, setChoice] = useState<Choice>(() => parse(location.hash));
  const source = useMemo(() => {
    let asked = false; // what comes between two frames of the screen is drawn once
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
    const timer = setTimeout(() => location.reload(), choice.reload * 1000);
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
  const [finding, find] = useState(false);
  useEffect(() => {
    const typed = (e: KeyboardEvent) => {
      if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey) || e.shiftKey || e.altKey) return;
      e.preventDefault();
      find(true);
    };
    document.addEventListener("keydown", typed);
    return () => document.removeEventListener("keydown", typed);
  }, []);
  const narrow = useNarrow();
  const state = source.shown;
  const past = source.past !== null;
  state.moves = useMoves(past ? state.at : 0, source.decided);
  const found = useFound(choice.q, past, source.live.at);
  const open = choice.node !== "" || choice.pod !== "";
  return (
    <>
      {!choice.dashboard && <Header source={source} state={state} clusters={clusters} choice={choice} choose={choose} find={() => find(true)} />}
      {finding && <Palette state={state} clusters={clusters} choice={choice} choose={choose} close={() => find(false)} />}
      {source.lost > 0 && <p class="note bad" role="alert">Disconnected since {clock(source.lost)}: this is the state of that moment. Reconnecting…</p>}
      {past && <p class="note" role="status">The state at {clock(state.at)}.</p>}
      {state.totals.notes?.map((n) => <p class="note" key={n}>{n}</p>)}
      <div class="middle">
        {choice.view === "fleet" ? <Fleet clusters={clusters} />
          : state.at === 0 ? <main><p class="empty" role="status">Reading the cluster…</p></main>
          : choice.view === "nodes" ? <Nodes state={state} version={state.version} choice={choice} found={found} choose={choose} narrow={narrow} />
          : choice.view === "pools" ? <Pools state={state} choice={choice} choose={choose} past={past} />
          : choice.view === "pending" ? <Pending state={state} choose={choose} />
          : choice.view === "decisions" ? <Decisions version={source.decided} now={source.live.at} choice={choice} choose={choose} />
          : choice.view === "savings" ? <Savings version={source.decided} />
          : choice.view === "whatif" ? <WhatIf />
          : choice.view === "addresses" ? <Addresses choice={choice} choose={choose} past={past} narrow={narrow} />
          : choice.view === "hosts" ? <Hosts choice={choice} choose={choose} past={past} />
          : <main class="map"><Cluster state={state} version={state.version} choice={choice} found={found} choose={choose} past={past} /></main>}
        {open && <Detail state={state} choice={choice} choose={choose} past={past} />}
      </div>
      {!choice.dashboard && <Timeline source={source} version={version} view={choice.view} span={choice.span} choose={choose} />}
    </>
  );
}

/** useFound asks which pods a filter lets through: at once when it changed, and every other second while things change. */
function useFound(q: string, past: boolean, at: number): Found {
  const [found, set] = useState<Found>(null);
  const asked = useRef({ q: "", at: 0 });
  useEffect(() => {
    if (!q.trim() || past) {
      asked.current = { q: "", at: 0 };
      set(null);
      return;
    }
    if (asked.current.q === q && Date.now() - asked.current.at < 2000) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      asked.current = { q, at: Date.now() };
      ask<Record<string, number[]>>(`/api/find?q=${encodeURIComponent(q)}`, stop.signal).then(set, () => {});
    }, 150);
    return () => (clearTimeout(timer), asked.current.q === q || stop.abort());
  }, [q, past, at]);
  return found;
}

/** useMoves asks which moves of pods are planned, or were at a moment; none where that is not known. */
function useMoves(at: number, decided: number): Moves {
  const answer = useNews<Record<string, { to: string; pods: number }[]>>(at ? `/api/moves?t=${at}` : "/api/moves", decided);
  return useMemo(() => new Map(answer && typeof answer === "object" ? Object.entries(answer) : []), [answer]);
}

render(<Page />, document.getElementById("page")!);
