// The common parts of tables: columns, headers that sort by them, and short tables, which render all of their rows.

import type { ComponentChildren } from "preact";
import type { Choice } from "./fragment";
import { t } from "./language";
import { compare } from "./order";
import { natural } from "./text";

/** Titled holds the part of a column that is needed to sort the table. */
export interface Titled {
  key: string; // also the sort key
  title: string;
  number?: boolean; // right-aligned
}

/** Field is a column of a short table. */
export interface Field<T> extends Titled {
  width: number; // rem
  show: (x: T) => ComponentChildren;
  by: (x: T) => number | string; // the value to sort by
}

type Choose = (change: Partial<Choice>) => void;

/** Head is the header of a column, which sorts the table: ascending at first, descending when it is pressed again. */
export function Head({ c, sort, choose }: { c: Titled; sort: string; choose: Choose }) {
  const up = sort === c.key, down = sort === "-" + c.key;
  return (
    <th scope="col" aria-sort={up ? "ascending" : down ? "descending" : "none"} class={c.number ? "number" : undefined}>
      <button type="button" onClick={() => choose({ sort: up ? "-" + c.key : c.key })}>{t(c.title)}<span aria-hidden="true">{up ? " ▲" : down ? " ▼" : ""}</span></button>
    </th>
  );
}

/** Order replaces the headers where there are none. */
export function Order({ columns, sort, choose }: { columns: Titled[]; sort: string; choose: Choose }) {
  const options = columns.flatMap((c) => [[c.key, t(c.title)], ["-" + c.key, t(`${t(c.title)}, largest first`)]] as const);
  return (
    <label>
      <span class="unseen">{t("Order")}</span>
      <select value={sort} onChange={(e) => choose({ sort: e.currentTarget.value })}>
        {!options.some(([value]) => value === sort) && <option value={sort}>{t("Usual order")}</option>}
        {options.map(([value, title]) => <option key={value} value={value}>{title}</option>)}
      </select>
    </label>
  );
}

/** sorted sorts rows by the column named in sort; a leading "-" sorts the largest first. Ties, and all rows if there is no such column, are sorted by the columns in order. */
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

/** Short is a table of few rows. If there is no room for columns, each row is a card. */
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
              <dl>{others.map((c) => <div key={c.key}><dt>{t(c.title)}</dt><dd>{c.show(x)}</dd></div>)}</dl>
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
      {all.length > most && <p class="faint">{t(`The first ${most} of ${all.length} in this order.`)}</p>}
    </>
  );
}
