import { useEffect, useState } from "preact/hooks";
import { ask } from "./source";
import type { NodeRow } from "./state";

export interface Pod {
  namespace: string;
  name: string;
  phase: string;
  created: number;
  deleting?: boolean;
  requests: number[];
  why?: string;
}

const kept = new WeakMap<NodeRow, Promise<Pod[]>>();

/** podsOf requests a node's pods, once for each state of the node: every change of a node makes a new row. */
export function podsOf(m: NodeRow): Promise<Pod[]> {
  let pods = kept.get(m);
  if (!pods) {
    pods = ask<Pod[]>(`/api/pods?node=${encodeURIComponent(m.name)}`);
    pods.catch(() => kept.delete(m));
    kept.set(m, pods);
  }
  return pods;
}

/** usePods returns a node's pods once they have arrived; null before that and for the past, whose names are not stored. */
export function usePods(m: NodeRow | undefined, wanted: boolean): Pod[] | null {
  const [pods, set] = useState<Pod[] | null>(null);
  useEffect(() => {
    let current = true;
    if (!m || !wanted) set(null);
    else podsOf(m).then((p) => current && set(p), () => current && set(null));
    return () => {
      current = false;
    };
  }, [m, wanted]);
  return m && wanted ? pods : null;
}
