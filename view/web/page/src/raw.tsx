// A read-only view of an object as kubectl shows it: its events, its YAML, and what it is derived from, requested
// when it is opened.

import { useState } from "preact/hooks";
import { Copy } from "./copy";
import { t } from "./language";
import { useOnce } from "./news";
import { age } from "./text";

interface Answer {
  yaml: string;
  events: { last: number; type: string; reason: string; message: string; source: string; count: number }[] | null;
  noEvents?: string;
  refs?: Ref[];
}

interface Ref {
  kind: string;
  namespace?: string;
  name: string;
}

export function Raw({ kind, namespace = "", name, named = false, now }: Ref & { named?: boolean; now: number }) {
  const [open, setOpen] = useState(false);
  const path = `/api/object?kind=${kind}&namespace=${encodeURIComponent(namespace)}&name=${encodeURIComponent(name)}`;
  const answer = useOnce<Answer>(path, open);
  return (
    <details class="raw" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{t(`${kind}${named ? ` ${name}` : ""}: events and YAML`)}</summary>
      {open && (answer === null ? <p role="status">{t("Reading it…")}</p> : typeof answer === "string" ? <p class="bad" role="alert">{answer}</p> : <Shown a={answer} of={kind} now={now} />)}
    </details>
  );
}

function Shown({ a, of, now }: { a: Answer; of: string; now: number }) {
  const events = a.events ?? [];
  return (
    <>
      {a.refs?.map((r) => <Raw key={r.kind + r.name} {...r} named now={now} />)}
      {a.noEvents ? <p class="faint">{a.noEvents}</p> : events.length === 0 ? <p class="faint">{t("No events.")}</p> : (
        <ul aria-label={t(`Events of the ${of}`)}>
          {events.map((e) => (
            <li key={e.reason + e.message + e.last}>
              <span class={e.type === "Warning" ? "bad" : undefined}>{e.type === "Warning" ? "✗ " : ""}{e.reason}</span> <small class="faint">{t(`${age(now, e.last)} ago`)}{e.count > 1 && ", " + t(`${e.count} times`)}{e.source && `, ${e.source}`}</small>
              <div>{t(e.message)}</div>
            </li>
          ))}
        </ul>
      )}
      <Copy text={a.yaml} label="Copy YAML" />
      <pre tabIndex={0} aria-label={t(`YAML of the ${of}`)}>{a.yaml}</pre>
    </>
  );
}
