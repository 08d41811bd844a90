import { useLayoutEffect, useState } from "preact/hooks";
import type { RefObject } from "preact";

export interface Rows {
  from: number; // the first rendered row
  to: number; // the row after the last rendered one
  page: number; // the number of visible rows
  reveal: (row: number) => void; // scrolls as little as necessary
}

const more = 8; // extra rows beyond either edge, so that scrolling shows no gap

/** useRows returns which of the rows, all of the same height, must be rendered to fill the visible part of the box. head is the height of the header above them. */
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
