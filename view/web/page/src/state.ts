// What the server tells of a cluster, put together. view/web/record.go and encode.go say the form.
import type { Moves } from "./moves";
import { natural } from "./text";

export interface Kind {
  pool: string;
  type: string;
  capacity: string;
  zone: string;
  labels: Record<string, string>;
}

export interface NodeRow {
  id: number;
  name: string;
  order: string; // what it is ordered by name with
  kind: Kind;
  status: string;
  created: number; // seconds since 1970, as all times here
  readyIn: number;
  price: number; // millionths of a dollar an hour; 0 = not known
  requests: number[]; // in the order of ClusterState.resources
  allocatable: number[];
  pods: string; // a letter each: r runs, p does not yet, t is being deleted; in upper case those of kube-system
  why: string[];
  claim: string;
  microVM: string;
  since: number; // since when its status holds, if it waits
  hasNode: boolean;
}

/** goes are the statuses of nodes that are being removed. */
export const goes = new Set(["Deleting", "Interrupted", "Disrupted"]);

export interface Totals {
  nodes: number;
  onTheirWay: number;
  notReady: number;
  going: number;
  unpriced: number;
  price: number;
  bound: number;
  running: number;
  waiting: number;
  requests: number[];
  allocatable: number[];
  notes?: string[];
}

type Row = [number, string, number, string, number, number, number, number[], number[], string, string[], string, string, number, boolean];

export interface Message {
  e: string;
  s: number;
  t: number;
  f?: number;
  k?: Kind[];
  m: Row[];
  g: number[];
  o: Totals;
  h?: string[];
}

export const none: Totals = {
  nodes: 0, onTheirWay: 0, notReady: 0, going: 0, unpriced: 0, price: 0, bound: 0, running: 0, waiting: 0, requests: [], allocatable: [],
};

/** ClusterState is a cluster at one moment. */
export class ClusterState {
  nodes = new Map<number, NodeRow>();
  resources: string[] = [];
  totals: Totals = none;
  id = ""; // of the last message, as the server knows it
  at = 0; // its time in milliseconds since 1970; 0 = nothing is known yet
  version = 0; // counts changes
  moves: Moves = new Map(); // that are planned, told apart from the frames
  kinds: Kind[] = []; // also those that no node is of any more
  private changed: Set<number> | null = null; // IDs since the last taken; null = all

  /** whole replaces everything by a state. */
  whole(m: Message): void {
    this.nodes = new Map();
    this.kinds = [];
    this.changed = null;
    this.resources = m.h ?? this.resources;
    this.step(m);
  }

  /** step applies a frame. */
  step(m: Message): void {
    if (m.k) this.kinds.splice(m.f ?? 0, m.k.length, ...m.k);
    for (const r of m.m) {
      this.nodes.set(r[0], this.node(r));
      this.changed?.add(r[0]);
    }
    for (const id of m.g) {
      this.nodes.delete(id);
      this.changed?.add(id);
    }
    this.totals = m.o;
    this.id = `${m.e}.${m.s}`;
    this.at = Math.max(0, m.t);
    this.version++;
  }

  /** taken are the IDs of the nodes that changed since it was last asked, null if all may have. */
  taken(): Set<number> | null {
    const was = this.changed;
    this.changed = new Set();
    return was;
  }

  /** nameOf is the name of a node by that of its NodeClaim; any other is given back. */
  nameOf(claim: string): string {
    for (const m of this.nodes.values()) if (m.claim === claim) return m.name;
    return claim;
  }

  private node(r: Row): NodeRow {
    const kind = this.kinds[r[2]], was = this.nodes.get(r[0]);
    if (!kind) throw new Error(`node ${r[1]} is of kind ${r[2]}, which was not told`);
    return {
      id: r[0], name: r[1], order: was?.name === r[1] ? was.order : natural(r[1]), kind, status: r[3], created: r[4], readyIn: r[5], price: r[6], requests: r[7], allocatable: r[8], pods: r[9],
      why: r[10], claim: r[11], microVM: r[12], since: r[13], hasNode: r[14],
    };
  }
}

/** share is used of offered, 0 if nothing is offered. */
export function share(m: NodeRow, resource: number): number {
  const of = m.allocatable[resource] ?? 0;
  return of > 0 ? (m.requests[resource] ?? 0) / of : 0;
}
