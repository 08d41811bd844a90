// An object as kubectl shows it, to be read only: its events, its YAML, and what it is made from, asked for when somebody opens it.

import { useState } from "preact/hooks";
import { Copy } from "./copy";
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

export function Raw({ kind, namespace = "", name, named = false }: Ref & { named?: boolean }) {
  const [open, setOpen] = useState(false);
  const path = `/api/object?kind=${kind}&namespace=${encodeURIComponent(namespace)}&name=${encodeURIComponent(name)}`;
  const answer = useOnce<Answer>(path, open);
  return (
    <details class="raw" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{kind}{named && ` ${name}`}: events and YAML</summary>
      {open && (answer === null ? <p role="status">Reading it…</p> : typeof answer === "string" ? <p class="bad" role="alert">{answer}</p> : <Shown a={answer} of={kind} />)}
    </details>
  );
}

function Shown({ a, of }: { a: Answer; of: string }) {
  const events = a.events ?? [];
  return (
    <>
      {a.refs?.map((r) => <Raw key={r.kind + r.name} {...r} named />)}
      {a.noEvents ? <p class="faint">{a.noEvents}</p> : events.length === 0 ? <p class="faint">No events.</p> : (
        <ul aria-label={`Events of the ${of}`}>
          {events.map((e) => (
            <li key={e.reason + e.message + e.last}>
              <span class={e.type === "Warning" ? "bad" : undefined}>{e.type === "Warning" ? "✗ " : ""}{e.reason}</span> <small class="faint">{age(Date.now() / 1000, e.last)} ago{e.count > 1 && `, ${e.count} times`}{e.source && `, ${e.source}`}</small>
              <div>{e.message}</div>
            </li>
          ))}
        </ul>
      )}
      <Copy text={a.yaml} label="Copy YAML" />
      <pre tabIndex={0} aria-label={`YAML of the ${of}`}>{a.yaml}</pre>
    </>
  );
}
