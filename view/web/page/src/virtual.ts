import { useLayoutEffect, useState } from "preact/hooks";
import type { RefObject } from "preact";

export interface Rows {
  from: number; // the first row that is there
  to: number; // the one after the last
  page: number; // how many are seen at once
  reveal: (row: number) => void; // scrolls as little as is needed
}

const more = 8; // rows beyond either edge, so that there is something when it scrolls

/** useRows says which of so many rows of one height have to be there for what is seen of their box. head is what stands above them in it. */
export function useRows(box: RefObject<HTMLElement | null>, rows: number, height: number, head: number): Rows {
  const [seen, set] = useState({ top: 0, tall: 0 });
  useLayoutEffect(() => {
    const b = box.current!;
    const look = () => set((was) => (was.top === b.scrollTop && was.tall === b.clientHeight ? was : { top: b.scrollTop, tall: b.clientHeight }));
    const resized = new ResizeObserver(look);
    resized.observe(b);
    b.addEventListener("scroll", look, { passive: true });
    look();
    return () => (resized.disconnect(), b.removeEventListener("scroll", look));
  }, []);
  const page = Math.max(1, Math.floor((seen.tall - head) / height));
  const first = Math.min(Math.floor(seen.top / height), Math.max(0, rows - page));
  return {
    from: Math.max(0, first - more), to: Math.min(rows, first + page + 1 + more), page,
    reveal: (row) => {
      const b = box.current!, y = row * height;
      if (y < b.scrollTop) b.scrollTop = y;
      else if (y + height > b.scrollTop + b.clientHeight - head) b.scrollTop = y + height + head - b.clientHeight;
    },
  };
}
