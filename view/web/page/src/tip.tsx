import { t } from "./language";
import { usePods } from "./pods";
import { age, amount } from "./text";
import { lines } from "./words";
import type { NodeRow, ClusterState } from "./state";

interface Props {
  m: NodeRow;
  state: ClusterState;
  cell: number; // index of the pod under the pointer; -1 = none
  x: number;
  y: number;
  past: boolean;
}

const states: Record<string, string> = { r: "running", p: "bound, not running yet", t: "is being deleted" };

/** Tip describes what is under the pointer. */
export function Tip({ m, state, cell, x, y, past }: Props) {
  const pods = usePods(m, cell >= 0 && !past);
  const style: Record<string, string> = { left: Math.min(x + 14, window.innerWidth - 380) + "px" };
  if (y > window.innerHeight / 2) style.bottom = window.innerHeight - y + 14 + "px";
  else style.top = y + 14 + "px";
  const pod = cell >= 0 ? pods?.[cell] : undefined;
  const letter = m.pods[cell]?.toLowerCase() ?? "";
  return (
    <div class="tip" role="tooltip" style={style}>
      {cell >= 0 && (
        <>
          <strong>{pod ? `${pod.namespace}/${pod.name}` : t(past ? "a pod (names are shown live only)" : "a pod")}</strong>
          <div>{t(states[letter] ?? "")}{pod && ", " + t(`${age(state.now / 1000, pod.created)} old`)}</div>
          {pod && <div>{t("requests")} {state.resources.map((r, i) => `${r} ${amount(r, pod.requests[i] ?? 0)}`).join(", ")}</div>}
          <hr />
        </>
      )}
      <strong>{m.name}</strong>
      <Facts lines={lines(m, state)} />
    </div>
  );
}

/** Facts is a list of names with texts. */
export function Facts({ lines }: { lines: [string, string][] }) {
  return (
    <dl>
      {lines.map(([name, text], i) => (
        <div key={i}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}
