// The boxes are drawn on canvases that lie one below the other and scroll with the page, so that scrolling draws only what comes
// into sight, and a change only the boxes that it is about.

import type { Choice } from "./fragment";
import type { Box, Layout } from "./layout";
import { mostPaid, paint, repaint, type Palette } from "./paint";
import type { ClusterState } from "./state";

const tall = 320; // of a band, in pixels

interface Band {
  canvas: HTMLCanvasElement;
  drawn: string; // what is on it; "" = nothing
}

export class Bands {
  private bands = new Map<number, Band>();
  private layout: Layout | null = null;
  private generation = 0; // of layouts

  /** draw shows what is between top and top+height in a parent. changed are boxes that are to be drawn anew although the layout is the same. */
  draw(parent: HTMLElement, l: Layout, w: ClusterState, c: Choice, p: Palette, chosen: number, top: number, wide: number, height: number, changed: Box[]): void {
    if (l !== this.layout) {
      this.layout = l;
      this.generation++;
    }
    const ratio = window.devicePixelRatio || 1, most = mostPaid(l, c);
    const key = [this.generation, wide, ratio, c.scale, c.color, chosen, most, p.text].join(" ");
    const first = Math.max(0, Math.floor(top / tall)), last = Math.max(first, Math.floor((Math.min(top + height, Math.max(l.total, 1)) - 1) / tall));
    const free: Band[] = [];
    for (const [i, band] of this.bands) {
      if (i >= first - 1 && i <= last + 1) continue; // what is just out of sight stays
      this.bands.delete(i);
      free.push(band);
    }
    for (let i = first; i <= last; i++) {
      let band = this.bands.get(i);
      if (!band) {
        band = free.pop() ?? { canvas: parent.appendChild(document.createElement("canvas")), drawn: "" };
        band.drawn = "";
        band.canvas.style.top = i * tall + "px";
        this.bands.set(i, band);
      }
    }
    for (const band of free) band.canvas.remove();
    for (const [i, band] of this.bands) {
      if (i < first || i > last) {
        if (band.drawn !== key || changed.length > 0) band.drawn = ""; // it is drawn when it is seen
        continue;
      }
      const g = band.canvas.getContext("2d")!;
      if (band.drawn === key) {
        if (changed.length > 0) repaint(g, changed, l, w, c, p, chosen, most, i * tall, wide, tall);
        continue;
      }
      const width = Math.round(wide * ratio), deep = Math.round(tall * ratio);
      if (band.canvas.width !== width || band.canvas.height !== deep) {
        band.canvas.width = width;
        band.canvas.height = deep;
        band.canvas.style.width = wide + "px";
        band.canvas.style.height = tall + "px";
      }
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      paint(g, l, w, c, p, chosen, most, i * tall, wide, tall);
      band.drawn = key;
    }
  }
}
