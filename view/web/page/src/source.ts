// Where states come from: the stream of what is now, and what is kept of what was.

import { ClusterState, type Message } from "./state";

/** base is the beginning of the addresses of this cluster's page; "" for that of the cluster that the server was started for. */
export const base = /^\/clusters\/[^/]+/.exec(location.pathname)?.[0] ?? "";

/** Point is a moment on the line of time: number, milliseconds, nodes, price, pods with and without a place. */
export type Point = [number, number, number, number, number, number];

const mostPoints = 20000;

/** ask asks this cluster's page; of all clusters the server's own page knows. */
async function ask<T>(path: string, signal?: AbortSignal): Promise<T> {
  const answer = await fetch((path.startsWith("/api/clusters") ? "" : base) + path, signal ? { signal } : {});
  const body = (await answer.json()) as T & { error?: string };
  if (!answer.ok) throw new Error(body.error ?? `${path}: status ${answer.status}`);
  return body;
}

export { ask };

/** Source follows the cluster, or shows what it was. Whoever wants to know of changes gives it a function. */
export class Source {
  live = new ClusterState();
  past: ClusterState | null = null; // what is shown instead
  points: Point[] = [];
  lost = 0; // since when the stream is broken, in milliseconds since 1970; 0 = it is not
  error = ""; // of the past
  playing = false;
  decided = 0; // counts what is new among the decisions
  private stream: EventSource | null = null;
  private wanted = 0; // the moment of the past that was asked for last
  private busy = false;
  private waiting: Message[] = []; // frames to replay
  private timer = 0;

  constructor(private changed: () => void) {}

  get shown(): ClusterState {
    return this.past ?? this.live;
  }

  start(): void {
    this.stream = new EventSource(base + "/api/stream");
    this.stream.addEventListener("open", () => this.told(() => (this.lost = 0)));
    this.stream.addEventListener("error", () => {
      this.told(() => (this.lost ||= Date.now()));
      // A browser gives up on an answer that is no stream, such as that of a server that is starting.
      if (this.stream?.readyState === EventSource.CLOSED) void this.comeAgain();
    });
    this.stream.addEventListener("state", (e) => {
      this.told(() => this.live.whole(JSON.parse((e as MessageEvent<string>).data) as Message));
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

  /** comeAgain starts anew in a while, or leads to the login of whoever may not look any more. */
  private async comeAgain(): Promise<void> {
    const status = await fetch(base + "/api/who").then((r) => r.status, () => 0);
    if (status === 401 || status === 403) location.assign("/login");
    else setTimeout(() => this.start(), 2000);
  }

  private told(change: () => void): void {
    change();
    this.changed();
  }

  private async line(): Promise<void> {
    try {
      const points = await ask<Point[]>("/api/history");
      this.told(() => (this.points = points));
    } catch (e) {
      this.told(() => (this.error = String(e)));
    }
  }

  /** go shows a moment of the past; 0 is live again. Only the last moment that was asked for is shown. */
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
      this.told(() => (this.error = String(e)));
    } finally {
      this.busy = false;
    }
  }

  /** play goes on from the moment that is shown, so many times as fast as it was, until it is now; then it says so. */
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
        this.told(() => (this.error = String(e)));
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
      if (first - now > 1000 * speed) { // nothing happened for long: that is not waited for
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
