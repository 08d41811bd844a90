// The timeline: past counts and costs, a slider to go back to any moment, and a button to replay.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Choice } from "./fragment";
import { narrow } from "./header";
import { t } from "./language";
import { useAnswer, useNews } from "./news";
import { budget } from "./pools";
import type { Point, Source } from "./source";
import { clock, perHour } from "./text";

interface Props {
  source: Source;
  version: number;
  view: string;
  at: number; // the chosen moment, in milliseconds since 1970; 0 is now
  span: string;
  choose: (change: Partial<Choice>) => void;
}

// The part of the timeline that is shown, in seconds: the chosen part or everything until now by the cluster's clock,
// but at least a minute, so that the first moments are not years apart. There may be no points yet; uPlot would show
// a single point as a thousand days.
const range = (u: uPlot, span: string, now: number): [number, number] => {
  const times = u.data?.[0] ?? [];
  const end = Math.max(times[times.length - 1] ?? 0, Math.ceil(now / 1000)) || Date.now() / 1000;
  const [from, to] = span.split("-").map(Number);
  if (from && to && to > from) return [from / 1000, to / 1000];
  return from ? [end - from, end] : [Math.min(times[0] ?? end, end - 60), end];
};

const spans: [string, string][] = [["", "everything"], ["300", "last 5 min"], ["1800", "last 30 min"], ["7200", "last 2 h"]];

/** Decision holds the fields of a decision that the timeline needs. */
interface Decision {
  time: string;
  kind: string;
  method?: string;
  why: string;
}

/** Rollout is the moment at which a workload began to create pods of a new template. */
interface Rollout {
  kind: string;
  namespace: string;
  name: string;
  time: number; // milliseconds since 1970
}

/** Mark is a moment on the timeline: a decision, or a rollout. */
interface Mark {
  at: number; // seconds since 1970
  kind: string; // of a decision; "" for a rollout
  text: string;
}

const decisionMark = (d: Decision): Mark => ({ at: Date.parse(d.time) / 1000, kind: d.kind, text: `${d.kind}${d.method ? `, ${d.method}` : ""}: ${t(d.why)}` });
const rolloutMark = (r: Rollout): Mark => ({ at: r.time / 1000, kind: "", text: t(`Rollout of ${r.kind} ${r.namespace}/${r.name}`) });

/** Period holds the times at which a budget or a disruption window of a NodePool is in force, in seconds since 1970. */
interface Period {
  pool: string;
  nodes?: string; // the nodes that a budget allows
  reasons: string[] | null;
  spans: [number, number][];
}

/** marked holds the colours of marks. Depart is what the owner of a node did not decide, such as an interruption. */
const marked: Record<string, string> = { Launch: "--good", Remove: "--chosen", Replace: "--chosen", Depart: "--goes", Refuse: "--waits", Broken: "--waits" };
const mostMarks = 1000, mostPeriods = 6;
const fromZero: uPlot.Scale = { range: (_u, _min, max) => [0, max > 0 ? max * 1.05 : 1] };

// A line through a single point is invisible.
const few = (u: uPlot): boolean => (u.data[0]?.length ?? 0) < 3;

const short = new Intl.NumberFormat("en-US", { notation: "compact" });

/** label formats a time on the axis, as precisely as the step in seconds requires. */
function label(t: number, step: number): string {
  const d = new Date(t * 1000);
  return step < 60 ? d.toLocaleTimeString("en-GB") : step < 86_400 ? d.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) : d.toLocaleDateString("en-CA");
}

const tall = 130;
const speeds = [1, 10, 60];

const kept = "timeline"; // stored in this browser: open or closed

export function Timeline({ source, version, view, at, span, choose }: Props) {
  const [chosen, setChosen] = useState(() => localStorage.getItem(kept));
  const open = chosen ? chosen === "open" : view === "cluster" && window.innerWidth >= narrow && window.innerHeight >= narrow;
  const bounded = (e: KeyboardEvent) => { // the shown part begins or ends at the chosen moment
    if (!plot.current || points.length === 0 || e.metaKey || (e.key !== "[" && e.key !== "]")) return;
    const [from, to] = range(plot.current, span, source.live.now), moment = source.playing || !at ? source.shown.at : at;
    const part = e.key === "[" ? [moment, Math.ceil(to * 1000)] : [Math.floor(from * 1000), moment];
    if (part[0]! < part[1]!) choose({ span: part.join("-") });
  };
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
  const marks = useRef<Mark[]>([]), periods = useRef<Period[]>([]);
  const [pointed, point] = useState("");
  const points = source.points;
  const last = points.length - 1;
  const shown = source.past ? nearest(source, source.past.at) : last;
  const go = (at: number) => {
    choose({ at });
    void source.go(at);
  };
  const pointedAt = (u: uPlot) => point(u.cursor.left! < 0 ? "" : under(u, marks.current, periods.current));
  goTo.current = go;
  select.current = (from, to) => choose({ span: `${from}-${to}` });
  const [first, final] = source.points.length > 0 && plot.current ? edges(source, range(plot.current, span, source.live.now)) : [0, last];

  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: color("--faint"), grid: { stroke: color("--bar"), width: 1 } };
    const p = new uPlot({
      width: holder.current!.clientWidth, height: tall, legend: { show: true, live: true },
      hooks: {
        setData: [(u) => holder.current?.setAttribute("data-points", String(u.data[0]!.length))],
        setScale: [(u, key) => key === "x" && holder.current?.setAttribute("data-span", String(u.scales.x!.max! - u.scales.x!.min!))], // seconds, for tests
        draw: [(u) => holder.current?.setAttribute("data-marks", String(drawMarks(u, marks.current, color)))],
        setCursor: [pointedAt],
        drawClear: [(u) => holder.current?.setAttribute("data-periods", String(drawPeriods(u, periods.current, color)))],
        setSelect: [(u) => {
          const from = u.posToVal(u.select.left, "x"), to = u.posToVal(u.select.left + u.select.width, "x");
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          select.current(Math.floor(from * 1000), Math.ceil(to * 1000));
        }],
      },
      cursor: { drag: { x: true, y: false, setScale: false, dist: 5 } },
      scales: { x: { time: true, range: (u) => range(u, chosenSpan.current, source.live.now) }, n: fromZero, $: fromZero },
      axes: [
        { ...axis, space: 80, size: 30, values: (_u, times, _axis, _space, step) => times.map((t) => label(t, step)) },
        { ...axis, scale: "n", size: 50, values: (_u, v) => v.map((x) => short.format(x)) },
        { ...axis, scale: "$", side: 1, size: 60, values: (_u, v) => v.map((x) => "$" + short.format(x)) },
      ],
      series: [
        { label: t("Time"), value: (_u, v) => (v ? clock(v * 1000) : "") },
        { label: t("pods"), scale: "n", stroke: color("--running"), width: 1.5, points: { show: few } },
        { label: t("pending"), scale: "n", stroke: color("--goes"), width: 1.5, dash: [5, 3], points: { show: few } },
        { label: t("nodes"), scale: "n", stroke: color("--text"), width: 1.5, dash: [2, 2], points: { show: few } },
        { label: "$/h", points: { show: few }, scale: "$", stroke: color("--shade"), width: 2, value: (_u, v) => (v == null ? "" : perHour(v * 1e6)) },
      ],
    }, [[], [], [], [], []], holder.current!);
    plot.current = p;
    let down = 0; // where the button was pressed: dragging selects and is not a click
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
    if (drawn.current) return; // the pending update draws this change too
    drawn.current = window.setTimeout(() => {
      drawn.current = 0;
      const end = source.points[source.points.length - 1], now = source.live.now; // what held at the last change holds until now
      const p: Point[] = end && now > end[1] ? [...source.points, [end[0], now, end[2], end[3], end[4], end[5]]] : source.points;
      plot.current?.setData([p.map((x) => x[1] / 1000), p.map((x) => x[4]), p.map((x) => x[5]), p.map((x) => x[2]), p.map((x) => x[3] / 1e6)]);
    }, 300); // no more often than the eye can follow
  }, [points, version]);
  useEffect(() => () => window.clearTimeout(drawn.current), []);
  useEffect(() => {
    chosenSpan.current = span;
    plot.current?.setData(plot.current.data); // in its new range
  }, [span]);
  const mark = (moments: Mark[], inForce: Period[]) => {
    marks.current = moments;
    periods.current = inForce;
    if (!plot.current) return;
    plot.current.redraw(false);
    pointedAt(plot.current); // there may be a new mark under the pointer
  };

  const moment = source.past ? clock(source.past.at) : t("now");
  return (
    <footer class="timeline" aria-label={t("Timeline")}>
      <div ref={holder} aria-hidden="true" class={open ? "" : "closed"} />
      {open && source.live.at > 0 && <Marks version={source.decided} now={source.live.now} since={points[0]?.[1] ?? 0} mark={mark} pointed={pointed} />}
      <div class="row">
        <button type="button" aria-expanded={open} onClick={toggle} aria-label={t("Chart of the timeline")}>{open ? "▾" : "▴"}</button>
        <button type="button" disabled={!source.past} onClick={() => (source.playing ? (source.pause(), choose({ at: source.past?.at ?? 0 })) : void source.play(speed, () => choose({ at: 0 })))}>
          {t(source.playing ? "Pause" : "Play")}
        </button>
        <label>
          {t("speed")}{" "}
          <select value={String(speed)} onChange={(e) => setSpeed(Number(e.currentTarget.value))} disabled={source.playing}>
            {speeds.map((s) => <option key={s} value={String(s)}>×{s}</option>)}
          </select>
        </label>
        <label>
          {t("show")}{" "}
          <select value={span} onChange={(e) => choose({ span: e.currentTarget.value })}>
            {(spans.some(([s]) => s === span) ? spans : [...spans, [span, "selected"] as [string, string]]).map(([s, name]) => <option key={s} value={s}>{t(name)}</option>)}
          </select>
        </label>
        <input
          type="range" class="moment" min={String(first)} max={String(Math.max(first, final))} value={String(Math.max(first, Math.min(final, shown)))} aria-label={t("Moment")} aria-valuetext={moment} aria-keyshortcuts="[ ]" onKeyDown={bounded}
          onInput={(e) => {
            const i = Number(e.currentTarget.value);
            go(i >= last ? 0 : points[i]?.[1] ?? 0);
          }}
        />
        <output>{moment}</output>
        <button type="button" disabled={!source.past} onClick={() => go(0)}>{t("Live")}</button>
        {source.error && <span class="bad" role="alert">{source.error}</span>}
      </div>
    </footer>
  );
}

const hour = 3_600_000, minute = 60_000, soon = 10_000;

interface MarksProps {
  version: number;
  now: number; // milliseconds since 1970, by the cluster's clock
  since: number; // the first moment, likewise
  mark: (moments: Mark[], inForce: Period[]) => void;
  pointed: string;
}

/** Marks fetches the marks while the chart is open, and describes the one under the pointer. */
function Marks({ version, now, since, mark, pointed }: MarksProps) {
  const decided = useNews<{ items: Decision[] }>(`/api/decisions?limit=${mostMarks}`, version);
  const from = Math.floor((since || now) / hour) * hour, to = Math.ceil(now / hour) * hour;
  const periods = useAnswer<Period[]>(`/api/periods?from=${from}&to=${to}`, minute);
  const began = useAnswer<Rollout[]>(`/api/rollouts?from=${since}&to=${to}`, soon);
  useEffect(() => mark([...(known(decided)?.items ?? []).map(decisionMark), ...(known(began) ?? []).map(rolloutMark)], known(periods) ?? []), [decided, began, periods]);
  return <p class="pointed" aria-hidden="true">{pointed || t("Drag, or press [ and ] on the slider, to select a part; ticks are decisions, triangles rollouts, strips above budgets and windows in force.")}</p>;
}

const known = <T,>(answer: T | string | null): T | null => (typeof answer === "string" ? null : answer);

/** under describes what is under the pointer: a decision, a rollout, or what was in force. */
function under(u: uPlot, marks: Mark[], periods: Period[]): string {
  const m = nearestMark(u, marks, u.cursor.left!), at = u.posToVal(u.cursor.left!, "x");
  if (m) return `${clock(m.at * 1000)} ${m.text}`;
  const inForce = periods.filter((p) => p.spans.some(([from, to]) => from <= at && at < to));
  return inForce.map(({ pool, nodes, reasons }) => `${pool}: ${nodes ? budget({ nodes, reasons: reasons ?? [] }) : t(`Disruption window for ${(reasons ?? []).join(", ")}`)}`).join("; ");
}

/** drawPeriods draws strips where budgets and windows are in force, one below the other, and returns the number of visible ones. */
function drawPeriods(u: uPlot, periods: Period[], color: (name: string) => string): number {
  const { left, top, width } = u.bbox, strip = 4 * devicePixelRatio, place = (at: number): number => Math.max(left, Math.min(left + width, u.valToPos(at, "x", true)));
  let n = 0;
  u.ctx.fillStyle = color("--shade");
  periods.slice(0, mostPeriods).forEach((p, row) => {
    for (const [from, to] of p.spans) {
      const x = place(from), wide = place(to) - x;
      if (wide <= 0) continue;
      u.ctx.fillRect(x, top + 1.5 * row * strip, wide, strip);
      n++;
    }
  });
  return n;
}

/** drawMarks draws a tick for each visible decision and a triangle for each visible rollout, and returns their number. */
function drawMarks(u: uPlot, marks: Mark[], color: (name: string) => string): number {
  const { left, top, width, height } = u.bbox, tick = 7 * devicePixelRatio;
  let n = 0;
  for (const m of marks) {
    const x = u.valToPos(m.at, "x", true), floor = top + height;
    if (x < left || x > left + width) continue;
    n++;
    if (m.kind) {
      u.ctx.fillStyle = color(marked[m.kind] ?? "--faint");
      u.ctx.fillRect(x - devicePixelRatio, floor - tick, 2 * devicePixelRatio, tick);
      continue;
    }
    u.ctx.fillStyle = color("--text");
    u.ctx.beginPath();
    u.ctx.moveTo(x, floor - tick);
    u.ctx.lineTo(x - tick / 1.7, floor);
    u.ctx.lineTo(x + tick / 1.7, floor);
    u.ctx.fill();
  }
  return n;
}

/** nearestMark returns the nearest mark within a few pixels of a position, if there is one. */
function nearestMark(u: uPlot, marks: Mark[], left: number): Mark | null {
  let best: Mark | null = null, distance = 6;
  for (const m of marks) {
    const d = Math.abs(u.valToPos(m.at, "x") - left);
    if (d < distance) [best, distance] = [m, d];
  }
  return best;
}

/** edges returns the first and the last point of a range of seconds. */
const edges = (source: Source, [from, to]: [number, number]): [number, number] => [nearest(source, from * 1000), nearest(source, to * 1000)];

/** nearest returns the index of the last point that is not after a moment. */
function nearest(source: Source, at: number): number {
  let low = 0, high = source.points.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (source.points[mid]![1] <= at) low = mid + 1;
    else high = mid;
  }
  return Math.max(0, low - 1);
}
