// What nodes use, if the cluster measures it.

import { useMemo, useRef } from "preact/hooks";
import { useAnswer } from "./news";
import { amount } from "./text";
import type { NodeRow } from "./state";

interface Answer {
  served: boolean;
  nodes: { name: string; cpu: number; memory: number }[];
}

/** Usage is each node's usage of the measured resources, by node name: millicores and bytes. */
export type Usage = ReadonlyMap<string, Record<string, number>>;

export const measured = ["cpu", "memory"];

/** used is the suffix of a column key that stands for the usage of a resource. */
export const used = "_used";

const often = 15_000, seldom = 120_000; // milliseconds between two requests; seldom if usage is not measured

/** useUsage requests the usage of nodes periodically. */
export function useUsage(live: boolean): Usage {
  const every = useRef(seldom);
  const answer = useAnswer<Answer>("/api/usage", every.current);
  const known = answer !== null && typeof answer === "object" && answer.served;
  every.current = known ? often : seldom;
  return useMemo(() => new Map(live && known ? answer.nodes.map(({ name, cpu, memory }) => [name, { cpu, memory }]) : []), [answer, live]);
}

/** inUse formats a measured amount, with millicores below one CPU. */
export const inUse = (resource: string, n: number): string => (resource === "cpu" && n < 1000 ? `${n}m` : amount(resource, n));

/** usedBy returns a node's usage of a resource; undefined if unknown. */
export function usedBy(m: NodeRow, usage: Usage, resource: string): number | undefined {
  return m.hasNode ? usage.get(m.name)?.[resource] : undefined;
}
