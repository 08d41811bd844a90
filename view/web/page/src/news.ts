import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "./source";

const gap = 1000; // minimum milliseconds between two requests

/** useNews requests path at once, and again whenever version changes, keeping the previous answer meanwhile; a string is an error. */
export function useNews<T>(path: string, version: number, every = 0): T | string | null {
  const [answer, set] = useState<T | string | null>(null);
  const asked = useRef({ path: "", at: 0 });
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const wait = asked.current.path === path ? Math.max(0, asked.current.at + gap - performance.now()) : 0;
    const timer = window.setTimeout(() => {
      asked.current = { path, at: performance.now() };
      ask<T>(path, stop.signal).then(set, (e: Error) => !stop.signal.aborted && set(e.message));
    }, wait);
    const again = every && window.setTimeout(() => setTick((n) => n + 1), every);
    return () => (window.clearTimeout(timer), window.clearTimeout(again), stop.abort());
  }, [path, version, tick]);
  return answer;
}

/** useAnswer requests path periodically; a string is an error. */
export function useAnswer<T>(path: string, every: number): T | string | null {
  const [answer, set] = useState<T | string | null>(null);
  useEffect(() => {
    let timer = 0;
    const stop = new AbortController();
    const round = async (): Promise<void> => {
      try {
        set(await ask<T>(path, stop.signal));
      } catch (e) {
        if (!stop.signal.aborted) set((e as Error).message);
      }
      if (!stop.signal.aborted) timer = window.setTimeout(() => void round(), every);
    };
    void round();
    return () => (stop.abort(), window.clearTimeout(timer));
  }, [path, every]);
  return answer;
}

/** useOnce requests path once, as soon as it is wanted; a string is an error. */
export function useOnce<T>(path: string, wanted: boolean): T | string | null {
  const [answer, set] = useState<T | string | null>(null);
  useEffect(() => {
    set(null);
    if (!wanted) return;
    const stop = new AbortController();
    ask<T>(path, stop.signal).then(set, (e: Error) => !stop.signal.aborted && set(e.message));
    return () => stop.abort();
  }, [path, wanted]);
  return answer;
}
