// The boxes: a scrolling canvas that works with the keyboard and describes the chosen node for screen readers.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Choice } from "./fragment";
import { scales } from "./fragment";
import { t } from "./language";
import { Bands } from "./bands";
import { Copy } from "./copy";
import { beside, hit, layout, update, type Box, type Found, type Layout, type Parts } from "./layout";
import { drawFlows, flowsOf, sameFlows } from "./moves";
import { cellAt, mostPaid, paint, palette, repaint, type Palette } from "./paint";
import { useAnswer } from "./news";
import { Launchable, mostNamed } from "./pools";
import { Tip } from "./tip";
import { inWords } from "./words";
import type { ClusterState } from "./state";

interface Props {
  state: ClusterState;
  version: number; // of the state
  choice: Choice;
  found: Found;
  parts: Parts;
  choose: (change: Partial<Choice>) => void;
  past: boolean;
}

interface Pointer {
  id: number; // of the node
  cell: number;
  x: number;
  y: number;
}

export function Cluster({ state, version, choice, found, parts, choose, past }: Props) {
  const outer = useRef<HTMLDivElement>(null);
  const sheet = useRef<HTMLDivElement>(null);
  const over = useRef<HTMLDivElement>(null);
  const bands = useMemo(() => new Bands(), []), lines = useMemo(() => new Bands(), []);
  const changed = useRef<Box[]>([]); // since the last drawing
  const kept = useRef<{ l: Layout; of: unknown[] } | null>(null);
  const [wide, setWide] = useState(0);
  const [tall, setTall] = useState(0);
  const [pointer, setPointer] = useState<Pointer | null>(null);
  const [said, say] = useState("");
  const colors = useRef<Palette | null>(null);
  const l = useMemo(() => {
    const of = [state, choice.q, choice.group, choice.sort, choice.area, choice.scale, found, parts, wide, tall], was = kept.current, since = state.taken();
    if (was && since && was.of.every((x, i) => x === of[i])) {
      const moved = update(was.l, state, choice, since);
      if (moved) {
        changed.current.push(...moved);
        return was.l;
      }
    }
    changed.current = [];
    kept.current = { l: layout(state, choice, found, parts, wide, tall), of };
    return kept.current.l;
  }, [state, version, choice.q, choice.group, choice.sort, choice.area, choice.scale, found, parts, wide, tall]);
  const flows = useMemo(() => flowsOf(l, state.moves), [l, version, state.moves]);
  const last = useRef(-1); // the box that was chosen last: a divided node has several
  const at = l.boxes[last.current]?.m.name === choice.node ? last.current : l.boxes.findIndex((b) => b.m.name === choice.node);
  const chosen = l.boxes[at]?.m.id ?? 0;

  const draw = useRef<() => void>(() => {});
  draw.current = () => {
    const o = outer.current;
    if (!o || !sheet.current || !over.current) return;
    const p = (colors.current ??= palette()), most = mostPaid(l, choice), some = changed.current;
    const sight = { top: o.scrollTop, height: o.clientHeight, wide, total: l.total };
    bands.draw(
      sheet.current, sight, [l.id, choice.scale, choice.color, chosen, most, p.text].join(" "),
      (g, top, tall) => paint(g, l, state, choice, p, chosen, most, top, wide, tall),
      some.length > 0 ? (g, top, tall) => repaint(g, some, l, state, choice, p, chosen, most, top, wide, tall) : undefined,
    );
    lines.draw(
      over.current, { ...sight, total: flows.length > 0 ? l.total : 0 }, [l.id, p.text, sameFlows(flows)].join(" "),
      (g, top, tall) => drawFlows(g, flows, p, top, wide, tall),
    );
    changed.current = [];
  };
  const pending = useRef(0);
  const redraw = () => {
    if (!pending.current) pending.current = requestAnimationFrame(() => ((pending.current = 0), draw.current()));
  };
  useLayoutEffect(redraw);

  useEffect(() => {
    const o = outer.current!;
    const resized = new ResizeObserver(() => {
      setWide(o.clientWidth);
      setTall(o.clientHeight);
      redraw();
    });
    resized.observe(o);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const themed = () => ((colors.current = null), redraw());
    dark.addEventListener("change", themed);
    return () => (resized.disconnect(), dark.removeEventListener("change", themed));
  }, []);

  const where = (e: MouseEvent): [number, number] => {
    const r = outer.current!.getBoundingClientRect();
    return [e.clientX - r.left, e.clientY - r.top + outer.current!.scrollTop];
  };
  const moved = (e: MouseEvent) => {
    const [x, y] = where(e);
    const b = hit(l, x, y);
    const cell = b ? cellAt(l, b, state.resources, x, y) : -1;
    setPointer(b ? { id: b.m.id, cell: b.only?.[cell] ?? cell, x: e.clientX, y: e.clientY } : null);
  };
  const clicked = (e: MouseEvent) => {
    const [x, y] = where(e);
    const b = hit(l, x, y);
    last.current = b ? l.boxes.indexOf(b) : -1;
    choose({ node: b?.m.name ?? "", pod: "" });
  };
  const zoom = (by: number) => choose({ scale: Math.min(scales.most, Math.max(scales.least, choice.scale * by)) });
  const wheeled = (e: WheelEvent) => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    zoom(e.deltaY < 0 ? 1.15 : 1 / 1.15);
  };
  const typed = (e: KeyboardEvent) => {
    const to = step(l, at, e.key);
    if (to !== undefined) {
      e.preventDefault();
      const b = l.boxes[to]!;
      last.current = to;
      const o = outer.current!;
      if (b.y < o.scrollTop) o.scrollTop = Math.max(0, b.y - 40);
      if (b.y + b.h > o.scrollTop + o.clientHeight) o.scrollTop = b.y + b.h - o.clientHeight + 8;
      choose({ node: b.m.name, pod: "" });
      say((b.m.part ? b.group!.name + ": " : "") + inWords(b.m, state));
    } else if (e.key === "Escape") choose({ node: "", pod: "" });
    else if (e.key === "+") zoom(1.25);
    else if (e.key === "-") zoom(1 / 1.25);
  };
  const under = pointer && state.nodes.get(pointer.id);
  return (
    <div class="cluster">
      <div
        class="boxes" ref={outer} tabIndex={0} role="application" aria-roledescription={t("map of nodes")}
        aria-label={t(`${l.byID.size} of ${l.of} nodes. Arrow keys go from node to node, plus and minus zoom, Escape closes details. The same as tables: /lite`)}
        onScroll={redraw} onKeyDown={typed} onMouseMove={moved} onMouseLeave={() => setPointer(null)} onClick={clicked} onWheel={wheeled}
      >
        <div class="tall" style={{ height: l.total + "px" }}>
          <div ref={sheet} aria-hidden="true" />
          <div ref={over} aria-hidden="true" />
        </div>
      </div>
      {wide > 0 && l.boxes.length === 0 && (l.of > 0 ? <p class="empty">{t("No node matches. Clear the filter to see all.")}</p> : !past && <Empty now={state.now / 1000} />)}
      <div class="unseen" role="status">{said}</div>
      {under && <Tip m={under} state={state} cell={pointer.cell} x={pointer.x} y={pointer.y} past={past} />}
    </div>
  );
}

const first = "kubectl create deployment web --image=nginx --replicas=20";
const again = 5000; // milliseconds

/** Empty says what to do if there are no nodes. */
function Empty({ now }: { now: number }) {
  const answer = useAnswer<{ pools: string[] }>("/api/pending", again);
  const known = useRef<string[]>([]); // while an answer fails, the last ones
  const pools = answer === null || typeof answer === "string" ? known.current : (known.current = answer.pools);
  const names = pools.slice(0, mostNamed).join(", ") + (pools.length > mostNamed ? " " + t(`and ${pools.length - mostNamed} more`) : "");
  return (
    <section class="empty start">
      <h2>{t("There are no nodes")}</h2>
      <p>{t(pools.length > 0 ? `A pod that fits nowhere gets one, from ${pools.length === 1 ? "NodePool" : "NodePools"} ${names}. Create some:` : "A pod that fits nowhere gets one. Create some:")}</p>
      <p class="command">
        <code>{first}</code>{" "}
        <Copy text={first} />
      </p>
      <Launchable names={pools} now={now} />
    </section>
  );
}

/** step returns the index of the box that a key leads to. */
function step(l: Layout, at: number, key: string): number | undefined {
  const last = l.boxes.length - 1;
  if (last < 0) return undefined;
  const to = (i: number) => Math.min(last, Math.max(0, at < 0 ? 0 : i));
  switch (key) {
    case "ArrowRight": return to(at + 1);
    case "ArrowLeft": return to(at - 1);
    case "ArrowDown": case "ArrowUp": return at < 0 ? 0 : beside(l, at, key);
    case "Home": return 0;
    case "End": return last;
  }
  return undefined;
}
