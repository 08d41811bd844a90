// The state of a cluster, built from the server's messages. view/web/record.go and encode.go define the format.
import { t } from "./language";
import type { Moves } from "./moves";
import { natural } from "./text";
import type { Usage } from "./usage";

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
  order: string; // sort key for the name
  kind: Kind;
  status: string;
  created: number; // seconds since 1970, like all times here
  readyIn: number;
  price: number; // millionths of a dollar per hour; 0 = unknown, unless priced
  requests: number[]; // in the order of ClusterState.resources, then of extra
  allocatable: number[];
  pods: string; // one letter per pod: r = running, p = not running yet, t = being deleted; upper case for pods of kube-system
  why: string[];
  claim: string;
  microVM: string;
  since: number; // when its status began, if it waits
  hasNode: boolean;
  part?: { of: string; share: number }; // where nodes are divided: whose pods these are, and of which share of the node
}

/** goes holds the statuses of nodes that are being removed. */
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
  n?: number; // the present, in a state of the stream
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
  id = ""; // of the last message, in the server's numbering
  at = 0; // its time in milliseconds since 1970; 0 = nothing is known yet
  version = 0; // counts changes
  moves: Moves = new Map(); // planned moves, received separately from the frames
  usage: Usage = new Map(); // received separately, like moves
  kinds: Kind[] = []; // including kinds that no node has any more
  private changed: Set<number> | null = null; // IDs since the last taken(); null = all
  private reached = 0; // the state's time when the last message arrived, or when it was made to stand
  private told = 0; // when that was, by the browser's clock

  /** stands is whether the state's time stands still, as in the past. */
  constructor(public stands = true) {}

  /** now is the state's time in milliseconds since 1970. It advances even while nothing changes, unless it stands. */
  get now(): number {
    return this.stands || this.at === 0 ? this.reached : this.reached + performance.now() - this.told;
  }

  /** stand makes the time stand still at what it is now. */
  stand(): void {
    if (this.stands) return;
    this.reach(this.now);
    this.stands = true;
  }

  private reach(now: number): void {
    this.reached = now;
    this.told = performance.now();
  }

  /** whole replaces everything with the state in a message. */
  whole(m: Message): void {
    this.nodes = new Map();
    this.kinds = [];
    this.changed = null;
    this.resources = m.h ?? this.resources;
    this.at = 0;
    this.reached = m.n ?? 0;
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
    const now = this.now; // a frame may be told long after its time
    this.at = Math.max(0, m.t);
    this.reach(Math.max(this.at, now));
    this.version++;
  }

  /** taken returns the IDs of the nodes changed since the previous call; null if any may have changed. */
  taken(): Set<number> | null {
    const was = this.changed;
    this.changed = new Set();
    return was;
  }

  /** nameOf maps the name of a NodeClaim to the name of its node; it returns any other name unchanged. */
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

/** priced reports whether a node's price is known. A prepaid node costs 0. */
export const priced = (m: NodeRow): boolean => m.price > 0 || m.kind.capacity === "reserved";

/** share is the requested share of a node's allocatable resource; 0 if nothing is allocatable. */
export function share(m: NodeRow, resource: number): number {
  const of = m.allocatable[resource] ?? 0;
  return of > 0 ? (m.requests[resource] ?? 0) / of : 0;
}

/** extra holds what every node counts beside the resources: GPUs, and addresses of pods. */
export const extra = ["gpu", "addresses"];

/** titleOf returns how a resource is written. */
export const titleOf = (resource: string): string => (resource === "gpu" ? "GPU" : resource === "addresses" ? t("addresses") : resource);

/** placeOf returns the index of a resource or an extra in amounts; -1 if it is neither. */
export function placeOf(resources: string[], name: string): number {
  const i = resources.indexOf(name), more = extra.indexOf(name);
  return i >= 0 || more < 0 ? i : resources.length + more;
}

/** Gauge is what a bar shows the taken part of; at is its index in amounts. */
export interface Gauge {
  name: string;
  at: number;
}

/** gauges returns the first two resources, and GPUs and addresses where there are any. */
export function gauges(m: { allocatable: number[] }, resources: string[]): Gauge[] {
  const out = resources.slice(0, 2).map((name, at): Gauge => ({ name, at }));
  extra.forEach((name, i) => {
    const at = resources.length + i;
    if ((m.allocatable[at] ?? 0) > 0) out.push({ name, at });
  });
  return out;
}
