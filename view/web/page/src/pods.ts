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

const kept = new Map<string, Promise<Pod[]>>();
const mostKept = 100;

/** podsOf asks for a node's pods, once for each state of it. */
export function podsOf(m: NodeRow): Promise<Pod[]> {
  const key = `${m.name} ${m.pods} ${m.requests.join()}`;
  let pods = kept.get(key);
  if (!pods) {
    pods = ask<Pod[]>(`/api/pods?node=${encodeURIComponent(m.name)}`);
    pods.catch(() => kept.delete(key));
    kept.set(key, pods);
    const oldest = kept.keys().next().value;
    if (kept.size > mostKept && oldest !== undefined) kept.delete(oldest);
  }
  return pods;
}

/** usePods are a node's pods, once they came; null before, or if they are of the past, whose names are not kept. */
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
