// Where states come from: the stream of the present, and the server's record of the past.

import { t } from "./language";
import { request } from "./request";
import { ClusterState, type Message } from "./state";

/** base is the path prefix of this cluster's page; "" for the cluster that the server was started for. */
export const base = /^\/clusters\/[^/]+/.exec(location.pathname)?.[0] ?? "";

/** Point is a moment on the timeline: number, milliseconds, nodes, price, pods with a node, pods without one. */
export type Point = [number, number, number, number, number, number];

const mostPoints = 20000;
const ageing = 2000; // milliseconds after which ages are updated even if nothing changes

/** ask queries this cluster's page, except for the list of all clusters, which only the server's own page has. */
async function ask<T>(path: string, signal?: AbortSignal): Promise<T> {
  const answer = await request((path.startsWith("/api/clusters") ? "" : base) + path, signal ? { signal } : {});
  const body = (await answer.json()) as T & { error?: string };
  if (!answer.ok) throw new Error(body.error ? t(body.error) : `${path}: status ${answer.status}`);
  return body;
}

export { ask };

/** Source follows the cluster, or shows its past. It calls changed whenever something changes. */
export class Source {
  live = new ClusterState(false);
  past: ClusterState | null = null; // shown instead of live
  points: Point[] = [];
  lost = 0; // when the stream broke, in milliseconds since 1970; 0 = connected
  error = ""; // of the past
  playing = false;
  decided = 0; // counts changes to the decisions
  private stream: EventSource | null = null;
  private epoch = ""; // of live, in which points are numbered
  private wanted = 0; // the last requested moment of the past
  private busy = false;
  private waiting: Message[] = []; // frames to replay
  private timer = 0;

  constructor(private changed: () => void) {
    setInterval(() => !this.shown.stands && changed(), ageing);
  }

  get shown(): ClusterState {
    return this.past ?? this.live;
  }

  start(): void {
    this.stream = new EventSource(base + "/api/stream");
    this.stream.addEventListener("open", () => this.told(() => ((this.lost = 0), (this.live.stands = false))));
    this.stream.addEventListener("error", () => {
      this.told(() => ((this.lost ||= Date.now()), this.live.stand()));
      // Browsers give up on a response that is not a stream, such as that of a server that is starting.
      if (this.stream?.readyState === EventSource.CLOSED) void this.comeAgain();
    });
    this.stream.addEventListener("state", (e) => {
      const m = JSON.parse((e as MessageEvent<string>).data) as Message;
      if (m.e !== this.epoch) [this.epoch, this.points] = [m.e, []];
      this.told(() => this.live.whole(m));
      void this.line();
    });
    this.stream.addEventListener("decided", () => this.told(() => this.decided++));
    this.stream.addEventListener("frame", (e) => {
      const m = JSON.parse((e as MessageEvent<string>).data) as Message;
      this.told(() => this.live.step(m));
      this.points.push([m.s, m.t, m.o.nodes, m.o.price, m.o.bound, m.o.waiting]);
      if (this.points.length > mostPoints) this.points.splice(0, mostPoints / 10);
    });
  }

  /** comeAgain reconnects after a while, or goes to the login page if the session is no longer valid. */
  private async comeAgain(): Promise<void> {
    const status = await request(base + "/api/who").then((r) => r.status, () => 0);
    if (status === 401 || status === 403) location.assign("/login");
    else setTimeout(() => this.start(), 2000);
  }

  private told(change: () => void): void {
    change();
    this.changed();
  }

  /** line reads the points of the current epoch, and keeps those that came meanwhile. */
  private async line(): Promise<void> {
    const epoch = this.epoch;
    try {
      const points = await ask<Point[]>("/api/history"), last = points[points.length - 1]?.[0] ?? 0;
      if (epoch === this.epoch) this.told(() => (this.points = [...points, ...this.points.filter(([s]) => s > last)]));
    } catch (e) {
      this.told(() => (this.error = (e as Error).message));
    }
  }

  /** go shows a moment of the past; 0 returns to live. Only the last requested moment is shown. */
  async go(at: number): Promise<void> {
    this.wanted = at;
    this.pause();
    if (at === 0) {
      this.told(() => ((this.past = null), (this.error = "")));
      return;
    }
    if (this.busy) return;
    this.busy = true;
    try {
      for (let done = -1; done !== this.wanted && this.wanted !== 0; ) {
        done = this.wanted;
        const m = await ask<Message>(`/api/at?t=${Math.round(done)}`);
        if (this.wanted === 0) break;
        const w = this.past ?? new ClusterState();
        this.told(() => {
          w.whole(m);
          this.past = w;
          this.error = "";
        });
      }
    } catch (e) {
      this.told(() => (this.error = (e as Error).message));
    } finally {
      this.busy = false;
    }
  }

  /** play replays from the shown moment, speed times as fast as it happened, until the present; then it calls ended. */
  async play(speed: number, ended: () => void): Promise<void> {
    const w = this.past;
    if (!w) return;
    this.playing = true;
    this.waiting = [];
    let began = performance.now(), from = w.at;
    const tick = async (): Promise<void> => {
      if (!this.playing || this.past !== w) return;
      try {
        if (this.waiting.length === 0) this.waiting = await ask<Message[]>(`/api/frames?after=${w.id}`);
      } catch (e) {
        this.pause();
        this.told(() => (this.error = (e as Error).message));
        return;
      }
      if (!this.playing || this.past !== w) return;
      if (this.waiting.length === 0) {
        void this.go(0);
        ended();
        return;
      }
      const first = this.waiting[0]!.t;
      let now = from + (performance.now() - began) * speed;
      if (first - now > 1000 * speed) { // nothing happens for long: skip it
        began = performance.now();
        now = from = first;
      }
      const steps = this.waiting.findIndex((m) => m.t > now);
      for (const m of this.waiting.splice(0, steps < 0 ? this.waiting.length : steps)) w.step(m);
      this.changed();
      this.timer = window.setTimeout(() => void tick(), 100);
    };
    await tick();
  }

  pause(): void {
    this.playing = false;
    window.clearTimeout(this.timer);
  }
}
