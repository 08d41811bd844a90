// What tables have in common: columns, heads that order them, and short tables all of whose rows are there.

import type { ComponentChildren } from "preact";
import type { Choice } from "./fragment";
import { compare } from "./order";
import { natural } from "./text";

/** Titled is a column as far as a table is ordered by it. */
export interface Titled {
  key: string; // also what the table is ordered by
  title: string;
  number?: boolean; // is set at the right
}

/** Field is a column of a short table. */
export interface Field<T> extends Titled {
  width: number; // rem
  show: (x: T) => ComponentChildren;
  by: (x: T) => number | string; // what it is ordered by
}

type Choose = (change: Partial<Choice>) => void;

/** Head is a column's, which orders the table: up at first, down when it is pressed again. */
export function Head({ c, sort, choose }: { c: Titled; sort: string; choose: Choose }) {
  const up = sort === c.key, down = sort === "-" + c.key;
  return (
    <th scope="col" aria-sort={up ? "ascending" : down ? "descending" : "none"} class={c.number ? "number" : undefined}>
      <button type="button" onClick={() => choose({ sort: up ? "-" + c.key : c.key })}>{c.title}<span aria-hidden="true">{up ? " ▲" : down ? " ▼" : ""}</span></button>
    </th>
  );
}

/** Order is what the heads of columns are where there are none. */
export function Order({ columns, sort, choose }: { columns: Titled[]; sort: string; choose: Choose }) {
  const options = columns.flatMap((c) => [[c.key, c.title], ["-" + c.key, c.title + ", largest first"]] as const);
  return (
    <label>
      <span class="unseen">Order</span>
      <select value={sort} onChange={(e) => choose({ sort: e.currentTarget.value })}>
        {!options.some(([value]) => value === sort) && <option value={sort}>Usual order</option>}
        {options.map(([value, title]) => <option key={value} value={value}>{title}</option>)}
      </select>
    </label>
  );
}

/** sorted orders rows by the column that sort names, with "-" before it for the largest first; equal ones, and all if it names none, by the columns in their order. */
export function sorted<T>(rows: T[], columns: Field<T>[], sort: string): T[] {
  const down = sort.startsWith("-"), first = columns.find((c) => c.key === (down ? sort.slice(1) : sort));
  const rank = (c: Field<T>, x: T): number | string => {
    const v = c.by(x);
    return typeof v === "string" ? natural(v) : v;
  };
  const step = (c: Field<T>, a: T, b: T): number => {
    const x = rank(c, a), y = rank(c, b);
    return typeof x === "number" && typeof y === "number" ? x - y : compare(String(x), String(y));
  };
  return [...rows].sort((a, b) => {
    const led = first ? (down ? -1 : 1) * step(first, a, b) : 0;
    return led || columns.reduce((n, c) => n || step(c, a, b), 0);
  });
}

interface Props<T> {
  title: string;
  rows: T[];
  columns: Field<T>[]; // the first names the row
  sort: string;
  choose: Choose;
  narrow: boolean;
  chosen?: (x: T) => boolean;
}

const most = 300; // rows

/** Short is a table of few rows; where there is no room for columns each row is a card. */
export function Short<T>({ title, rows, columns, sort, choose, narrow, chosen }: Props<T>) {
  const all = sorted(rows, columns, sort), some = all.slice(0, most), [name, ...others] = columns;
  const width = columns.reduce((sum, c) => sum + c.width, 0);
  const key = (x: T): string => columns.map((c) => c.by(x)).join(" ");
  return (
    <>
      {narrow ? (
        <ul class="plain" aria-label={title}>
          {some.map((x) => (
            <li key={key(x)} class={chosen?.(x) ? "shape chosen" : "shape"}>
              <h4>{name!.show(x)}</h4>
              <dl>{others.map((c) => <div key={c.key}><dt>{c.title}</dt><dd>{c.show(x)}</dd></div>)}</dl>
            </li>
          ))}
        </ul>
      ) : (
        <div class="rows short" tabIndex={0} role="region" aria-label={title}>
          <table style={{ minWidth: width + "rem" }} aria-label={title}>
            <colgroup>{columns.map((c) => <col key={c.key} style={{ width: (100 * c.width) / width + "%" }} />)}</colgroup>
            <thead><tr>{columns.map((c) => <Head key={c.key} c={c} sort={sort} choose={choose} />)}</tr></thead>
            <tbody>
              {some.map((x) => (
                <tr key={key(x)} class={chosen?.(x) ? "chosen" : undefined}>
                  {columns.map((c, i) => i === 0 ? <th key={c.key} scope="row">{c.show(x)}</th> : <td key={c.key} class={c.number ? "number" : undefined}>{c.show(x)}</td>)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {all.length > most && <p class="faint">The first {most} of {all.length} in this order.</p>}
    </>
  );
}
