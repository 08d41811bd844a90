// All nodes as a table. Only the visible rows are in the document, so that 5,000 nodes are as quick as 50.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { columnsOf, State, Use, usualColumns, type Column } from "./columns";
import { csv, save } from "./csv";
import { parseFilter, shows } from "./filter";
import type { Choice } from "./fragment";
import { t } from "./language";
import type { Found } from "./layout";
import { ordered } from "./order";
import { priced, share, type ClusterState, type NodeRow } from "./state";
import { Head, Order } from "./table";
import { age, perHour, plural } from "./text";
import { usedBy } from "./usage";
import { useRows } from "./virtual";

interface Props {
  state: ClusterState;
  version: number; // of the state
  choice: Choice;
  found: Found;
  choose: (change: Partial<Choice>) => void;
  narrow: boolean;
}

const kept = "columns"; // stored in this browser
const rowHeight = 32, cardHeight = 104; // pixels; also in style.css

export function Nodes({ state, version, choice, found, choose, narrow }: Props) {
  const all = useMemo(() => columnsOf(state.resources), [state.resources]);
  const names = choice.columns || localStorage.getItem(kept) || usualColumns(all).join();
  const columns = useMemo(() => {
    const wanted = new Set(names.split(","));
    return all.filter((c, i) => i === 0 || wanted.has(c.key));
  }, [all, names]);
  const nodes = useMemo(() => {
    const filter = parseFilter(choice.q);
    const some = [...state.nodes.values()].filter((m) => shows(filter, m, found?.[m.name] !== undefined));
    return ordered(some, (m) => m, state, choice.sort);
  }, [state, version, choice.q, choice.sort, found]);

  const toggle = (key: string) => {
    const next = columnsOf(state.resources).map((c) => c.key).filter((k) => (k === key) !== columns.some((c) => c.key === k)).join();
    localStorage.setItem(kept, next);
    choose({ columns: next === usualColumns(all).join() ? "" : next });
    if (next === usualColumns(all).join()) localStorage.removeItem(kept);
  };
  const download = () => {
    const rows = nodes.map((m) => columns.flatMap((c) => c.values(m, state)));
    save(`nodes-${new Date(state.at).toISOString().slice(0, 19).replace(/:/g, "")}.csv`, csv([columns.flatMap((c) => c.heads ?? [c.key]), ...rows]));
  };
  return (
    <main class="nodes" aria-label={t("Nodes")}>
      <div class="tablebar">
        <h2>{t("Nodes")}</h2>
        <span role="status" class="faint">{nodes.length === state.nodes.size ? plural(nodes.length, "node") : t(`${nodes.length} of ${plural(state.nodes.size, "node")}`)}</span>
        {narrow ? <Order columns={all} sort={choice.sort} choose={choose} /> : (
          <Menu title={t("Columns")}>
            {all.slice(1).map((c) => (
              <label key={c.key}><input type="checkbox" checked={columns.includes(c)} onChange={() => toggle(c.key)} /> {t(c.title)}</label>
            ))}
          </Menu>
        )}
        <button type="button" onClick={download} disabled={nodes.length === 0}>{t("Save as CSV")}</button>
      </div>
      {nodes.length === 0 ? <p class="empty">{t(state.nodes.size > 0 ? "No node matches. Clear the filter to see all." : "There are no nodes.")}</p>
        : <Table key={String(narrow)} nodes={nodes} columns={columns} state={state} choice={choice} choose={choose} narrow={narrow} />}
    </main>
  );
}

/** Menu is a list of choices under a button. Escape or a click elsewhere closes it. */
function Menu({ title, children }: { title: string; children: preact.ComponentChildren }) {
  const menu = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const pressed = (e: Event) => {
      if (!menu.current!.contains(e.target as Node)) menu.current!.open = false;
    };
    document.addEventListener("pointerdown", pressed);
    return () => document.removeEventListener("pointerdown", pressed);
  }, []);
  const typed = (e: KeyboardEvent) => {
    if (e.key !== "Escape") return;
    menu.current!.open = false;
    menu.current!.querySelector("summary")!.focus();
  };
  return (
    <details class="menu" ref={menu} onKeyDown={typed}>
      <summary>{title}</summary>
      <fieldset>
        <legend class="unseen">{title}</legend>
        {children}
      </fieldset>
    </details>
  );
}

interface TableProps {
  nodes: NodeRow[];
  columns: Column[];
  state: ClusterState;
  choice: Choice;
  choose: Props["choose"];
  narrow: boolean;
}

function Table({ nodes, columns, state, choice, choose, narrow }: TableProps) {
  const box = useRef<HTMLDivElement>(null);
  const height = narrow ? cardHeight : rowHeight, head = narrow ? 0 : rowHeight;
  const rows = useRows(box, nodes.length, height, head);
  const [at, setAt] = useState(0); // the row from which keys move
  const wanted = useRef(-1); // the row that should get the focus
  const first = at >= rows.from && at < rows.to ? at : rows.from; // the row that Tab leads to
  const focus = () => {
    const row = box.current?.querySelector<HTMLElement>(`[data-row="${wanted.current}"]`);
    if (!row) return; // it is rendered once scrolling reaches it
    wanted.current = -1;
    row.focus({ preventScroll: true });
  };
  useEffect(focus);
  useEffect(() => { // scroll to the chosen node, for example from a link
    const row = nodes.findIndex((m) => m.name === choice.node);
    if (row < 0) return;
    rows.reveal(row);
    setAt(row);
  }, [choice.node]);
  const typed = (e: KeyboardEvent) => {
    if (e.key === "Escape") choose({ node: "", pod: "" });
    const from = Number((e.target as HTMLElement).dataset.row ?? -1);
    const to = { ArrowDown: from + 1, ArrowUp: from - 1, PageDown: from + rows.page, PageUp: from - rows.page, Home: 0, End: nodes.length - 1 }[e.key];
    if (from < 0 || to === undefined) return;
    e.preventDefault();
    const next = Math.max(0, Math.min(nodes.length - 1, to));
    wanted.current = next;
    rows.reveal(next);
    focus();
    setAt(next);
  };
  const open = (m: NodeRow, row: number) => {
    setAt(row);
    choose({ node: m.name, pod: "" });
  };
  const seen = nodes.slice(rows.from, rows.to).map((m, i) => ({ m, row: rows.from + i }));
  const name = (m: NodeRow, row: number) => (
    <button type="button" class="link" data-row={row} tabIndex={row === first ? 0 : -1} aria-current={choice.node === m.name ? "true" : undefined} title={m.name}>{m.name}</button>
  );
  const above = rows.from * height, below = (nodes.length - rows.to) * height;
  if (narrow) {
    return (
      <div class="rows" ref={box} onKeyDown={typed}>
        <ul style={{ paddingTop: above + "px", paddingBottom: below + "px" }} aria-label={t("Nodes")}>
          {seen.map(({ m, row }) => <Card key={m.id} m={m} state={state} name={name(m, row)} open={() => open(m, row)} />)}
        </ul>
      </div>
    );
  }
  const width = columns.reduce((sum, c) => sum + c.width, 0);
  return (
    <div class="rows" ref={box} onKeyDown={typed}>
      <table style={{ minWidth: width + "rem" }} aria-rowcount={nodes.length + 1} aria-label={t("Nodes")}>
        <colgroup>{columns.map((c) => <col key={c.key} style={{ width: (100 * c.width) / width + "%" }} />)}</colgroup>
        <thead><tr aria-rowindex={1}>{columns.map((c) => <Head key={c.key} c={c} sort={choice.sort} choose={choose} />)}</tr></thead>
        <tbody>
          {above > 0 && <tr class="gap" aria-hidden="true"><td colSpan={columns.length} style={{ height: above + "px" }} /></tr>}
          {seen.map(({ m, row }) => (
            <tr key={m.id} aria-rowindex={row + 2} class={`${choice.node === m.name ? "chosen" : ""}${row % 2 ? " odd" : ""}`} onClick={() => open(m, row)}>
              {columns.map((c, i) => i === 0 ? <th key={c.key} scope="row">{name(m, row)}</th> : <td key={c.key} class={c.number ? "number" : undefined}>{c.show(m, state)}</td>)}
            </tr>
          ))}
          {below > 0 && <tr class="gap" aria-hidden="true"><td colSpan={columns.length} style={{ height: below + "px" }} /></tr>}
        </tbody>
      </table>
    </div>
  );
}

/** Card is a node if there is no room for columns. */
function Card({ m, state, name, open }: { m: NodeRow; state: ClusterState; name: preact.JSX.Element; open: () => void }) {
  return (
    <li class="card" onClick={open}>
      <div>{name}<State status={m.status} /></div>
      <div class="faint"><span>{[m.kind.pool, m.kind.type, m.kind.capacity, m.kind.zone].filter(Boolean).join(" · ")}</span></div>
      <div>{state.resources.slice(0, 2).map((r, i) => <Use key={r} label={r} resource={r} used={m.requests[i] ?? 0} of={m.allocatable[i] ?? 0} part={share(m, i)} measured={usedBy(m, state.usage, r)} />)}</div>
      <div class="faint"><span>{m.why[0] ? t(m.why[0]) : `${plural(m.pods.length, "pod")} · ${t(`${age(state.now / 1000, m.created)} old`)}`}</span><span>{priced(m) ? perHour(m.price) + "/h" : t("price not known")}</span></div>
    </li>
  );
}
