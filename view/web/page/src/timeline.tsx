// The line of time: what there was and cost, a handle to go back to any moment of it, and a button to see it happen again.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Choice } from "./fragment";
import { narrow } from "./header";
import { useNews } from "./news";
import type { Source } from "./source";
import { clock, perHour } from "./text";

interface Props {
  source: Source;
  version: number;
  view: string;
  span: string;
  choose: (change: Partial<Choice>) => void;
}

// What of the timeline is shown, in seconds: what was chosen, or everything, but a minute at least, so that the first moments are not
// years apart; there may be none yet. What uPlot would take for a single point is a thousand days.
const range = (u: uPlot, span: string): [number, number] => {
  const times = u.data?.[0] ?? [];
  const end = times[times.length - 1] ?? Date.now() / 1000;
  const [from, to] = span.split("-").map(Number);
  if (from && to && to > from) return [from / 1000, to / 1000];
  return from ? [end - from, end] : [Math.min(times[0] ?? end, end - 60), end];
};

const spans: [string, string][] = [["", "everything"], ["300", "last 5 min"], ["1800", "last 30 min"], ["7200", "last 2 h"]];

/** Mark is a decision on the timeline. */
interface Mark {
  time: string;
  kind: string;
  method?: string;
  why: string;
}

/** marked are the colours of marks; what a node's owner did not decide, such as an interruption, is Depart. */
const marked: Record<string, string> = { Launch: "--good", Remove: "--chosen", Replace: "--chosen", Depart: "--goes", Refuse: "--waits", Broken: "--waits" };
const mostMarks = 1000;
const fromZero: uPlot.Scale = { range: (_u, _min, max) => [0, max > 0 ? max * 1.05 : 1] };

// A line of one point is none.
const few = (u: uPlot): boolean => (u.data[0]?.length ?? 0) < 3;

const short = new Intl.NumberFormat("en-US", { notation: "compact" });

/** label is a time of the axis, as exact as its steps in seconds need it. */
function label(t: number, step: number): string {
  const d = new Date(t * 1000);
  return step < 60 ? d.toLocaleTimeString("en-GB") : step < 86_400 ? d.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) : d.toLocaleDateString("en-CA");
}

const tall = 130;
const speeds = [1, 10, 60];

const kept = "timeline"; // what this browser remembers: open or closed

export function Timeline({ source, version, view, span, choose }: Props) {
  const [chosen, setChosen] = useState(() => localStorage.getItem(kept));
  const open = chosen ? chosen === "open" : view === "cluster" && window.innerWidth >= narrow && window.innerHeight >= narrow;
  const toggle = () => {
    const next = open ? "closed" : "open";
    localStorage.setItem(kept, next);
    setChosen(next);
  };
  const [speed, setSpeed] = useState(10);
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const goTo = useRef((_: number) => {});
  const select = useRef((_from: number, _to: number) => {});
  const chosenSpan = useRef(span);
  const marks = useRef<Mark[]>([]);
  const [pointed, point] = useState<Mark | null>(null);
  const points = source.points;
  const last = points.length - 1;
  const shown = source.past ? nearest(source, source.past.at) : last;
  const go = (at: number) => {
    choose({ at });
    void source.go(at);
  };
  goTo.current = go;
  select.current = (from, to) => choose({ span: `${from}-${to}` });
  const [first, final] = source.points.length > 0 && plot.current ? edges(source, range(plot.current, span)) : [0, last];

  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: color("--faint"), grid: { stroke: color("--bar"), width: 1 } };
    const p = new uPlot({
      width: holder.current!.clientWidth, height: tall, legend: { show: true, live: true },
      hooks: {
        setScale: [(u, key) => key === "x" && holder.current?.setAttribute("data-span", String(u.scales.x!.max! - u.scales.x!.min!))], // seconds, for tests
        draw: [(u) => holder.current?.setAttribute("data-marks", String(drawMarks(u, marks.current, color)))],
        setCursor: [(u) => point(u.cursor.left! < 0 ? null : nearestMark(u, marks.current, u.cursor.left!))],
        setSelect: [(u) => {
          const from = u.posToVal(u.select.left, "x"), to = u.posToVal(u.select.left + u.select.width, "x");
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          select.current(Math.floor(from * 1000), Math.ceil(to * 1000));
        }],
      },
      cursor: { drag: { x: true, y: false, setScale: false, dist: 5 } },
      scales: { x: { time: true, range: (u) => range(u, chosenSpan.current) }, n: fromZero, $: fromZero },
      axes: [
        { ...axis, space: 80, size: 30, values: (_u, times, _axis, _space, step) => times.map((t) => label(t, step)) },
        { ...axis, scale: "n", size: 50, values: (_u, v) => v.map((x) => short.format(x)) },
        { ...axis, scale: "$", side: 1, size: 60, values: (_u, v) => v.map((x) => "$" + short.format(x)) },
      ],
      series: [
        { value: (_u, v) => (v ? clock(v * 1000) : "") },
        { label: "pods", scale: "n", stroke: color("--running"), width: 1.5, points: { show: few } },
        { label: "pending", scale: "n", stroke: color("--goes"), width: 1.5, dash: [5, 3], points: { show: few } },
        { label: "nodes", scale: "n", stroke: color("--text"), width: 1.5, dash: [2, 2], points: { show: few } },
        { label: "$/h", points: { show: few }, scale: "$", stroke: color("--shade"), width: 2, value: (_u, v) => (v == null ? "" : perHour(v * 1e6)) },
      ],
    }, [[], [], [], [], []], holder.current!);
    plot.current = p;
    let down = 0; // where the button was pressed: what is dragged selects, and is no click
    p.over.addEventListener("mousedown", (e) => (down = e.clientX));
    const clicked = (e: MouseEvent) => {
      if (Math.abs(e.clientX - down) >= 5) return;
      const left = p.cursor.left ?? -1;
      if (left >= 0) goTo.current(Math.round(p.posToVal(left, "x") * 1000));
    };
    p.over.addEventListener("click", clicked);
    const resized = new ResizeObserver(() => holder.current!.clientWidth > 0 && p.setSize({ width: holder.current!.clientWidth, height: tall }));
    resized.observe(holder.current!);
    return () => (resized.disconnect(), p.destroy());
  }, []);

  const drawn = useRef(0);
  useEffect(() => {
    if (drawn.current) return; // what came meanwhile is drawn too
    drawn.current = window.setTimeout(() => {
      drawn.current = 0;
      const p = source.points;
      plot.current?.setData([p.map((x) => x[1] / 1000), p.map((x) => x[4]), p.map((x) => x[5]), p.map((x) => x[2]), p.map((x) => x[3] / 1e6)]);
    }, 300); // it need not move more often than it can be followed
  }, [points, version]);
  useEffect(() => () => window.clearTimeout(drawn.current), []);
  useEffect(() => {
    chosenSpan.current = span;
    plot.current?.setData(plot.current.data); // in its new range
  }, [span]);
  const mark = (all: Mark[]) => {
    marks.current = all;
    plot.current?.redraw(false);
  };

  const moment = source.past ? clock(source.past.at) : "now";
  return (
    <footer class="timeline" aria-label="Timeline">
      <div ref={holder} aria-hidden="true" class={open ? "" : "closed"} />
      {open && <Marks version={source.decided} mark={mark} pointed={pointed} />}
      <div class="row">
        <button type="button" aria-expanded={open} onClick={toggle} aria-label="Chart of the timeline">{open ? "▾" : "▴"}</button>
        <button type="button" disabled={!source.past} onClick={() => (source.playing ? (source.pause(), choose({ at: source.past?.at ?? 0 })) : void source.play(speed, () => choose({ at: 0 })))}>
          {source.playing ? "Pause" : "Play"}
        </button>
        <label>
          speed{" "}
          <select value={String(speed)} onChange={(e) => setSpeed(Number(e.currentTarget.value))} disabled={source.playing}>
            {speeds.map((s) => <option key={s} value={String(s)}>×{s}</option>)}
          </select>
        </label>
        <label>
          show{" "}
          <select value={span} onChange={(e) => choose({ span: e.currentTarget.value })}>
            {(spans.some(([s]) => s === span) ? spans : [...spans, [span, "selected"] as [string, string]]).map(([s, name]) => <option key={s} value={s}>{name}</option>)}
          </select>
        </label>
        <input
          type="range" class="moment" min={String(first)} max={String(Math.max(first, final))} value={String(Math.max(first, Math.min(final, shown)))} aria-label="Moment" aria-valuetext={moment}
          onInput={(e) => {
            const i = Number(e.currentTarget.value);
            go(i >= last ? 0 : points[i]?.[1] ?? 0);
          }}
        />
        <output>{moment}</output>
        <button type="button" disabled={!source.past} onClick={() => go(0)}>Live</button>
        {source.error && <span class="bad">{source.error}</span>}
      </div>
    </footer>
  );
}

/** Marks asks for the decisions that are marked, while the chart is open, and says what the one that is pointed at is. */
function Marks({ version, mark, pointed }: { version: number; mark: (all: Mark[]) => void; pointed: Mark | null }) {
  const decided = useNews<{ items: Mark[] }>(`/api/decisions?limit=${mostMarks}`, version);
  useEffect(() => mark(decided && typeof decided !== "string" ? decided.items : []), [decided]);
  const text = pointed ? `${clock(Date.parse(pointed.time))} ${pointed.kind}${pointed.method ? `, ${pointed.method}` : ""}: ${pointed.why}` : "Drag to select a part; ticks are decisions.";
  return <p class="pointed" aria-hidden="true">{text}</p>;
}

/** drawMarks draws a tick for each decision that is in sight, and counts them. */
function drawMarks(u: uPlot, marks: Mark[], color: (name: string) => string): number {
  const { left, top, width, height } = u.bbox, tick = 7 * devicePixelRatio;
  let n = 0;
  for (const m of marks) {
    const x = u.valToPos(Date.parse(m.time) / 1000, "x", true);
    if (x < left || x > left + width) continue;
    u.ctx.fillStyle = color(marked[m.kind] ?? "--faint");
    u.ctx.fillRect(x - devicePixelRatio, top + height - tick, 2 * devicePixelRatio, tick);
    n++;
  }
  return n;
}

/** nearestMark is the decision within some pixels of a place, if there is one. */
function nearestMark(u: uPlot, marks: Mark[], left: number): Mark | null {
  let best: Mark | null = null, distance = 6;
  for (const m of marks) {
    const d = Math.abs(u.valToPos(Date.parse(m.time) / 1000, "x") - left);
    if (d < distance) [best, distance] = [m, d];
  }
  return best;
}

/** edges are the first and the last point of a range of seconds. */
const edges = (source: Source, [from, to]: [number, number]): [number, number] => [nearest(source, from * 1000), nearest(source, to * 1000)];

/** nearest is the index of the last point that is not after a moment. */
function nearest(source: Source, at: number): number {
  let low = 0, high = source.points.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (source.points[mid]![1] <= at) low = mid + 1;
    else high = mid;
  }
  return Math.max(0, low - 1);
}
