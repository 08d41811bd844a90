// Drawings are split into canvases stacked vertically that scroll with the page: scrolling draws only the newly
// visible part, and a change only what it affects.

const tall = 320; // of a band, in pixels

interface Band {
  canvas: HTMLCanvasElement;
  drawn: string; // the key of its content; "" = nothing
}

/** Painter draws the part between top and top+tall on a canvas, either all of it or only the changes. */
export type Painter = (g: CanvasRenderingContext2D, top: number, tall: number) => void;

/** Sight is the visible part of a drawing of height total: from top to top+height. */
export interface Sight {
  top: number;
  height: number;
  wide: number;
  total: number; // 0 = there is nothing to draw
}

export class Bands {
  private bands = new Map<number, Band>();

  /** draw shows in a parent what paint draws. It repaints only if the key has changed; otherwise it calls change, if given, to draw the changes. */
  draw(parent: HTMLElement, { top, height, wide, total }: Sight, of: string, paint: Painter, change?: Painter): void {
    const ratio = window.devicePixelRatio || 1, key = [wide, ratio, of].join(" ");
    const first = Math.max(0, Math.floor(top / tall)), last = total > 0 ? Math.max(first, Math.floor((Math.min(top + height, total) - 1) / tall)) : -2;
    const free: Band[] = [];
    for (const [i, band] of this.bands) {
      if (i >= first - 1 && i <= last + 1 && i * tall < total) continue; // keep bands that are just out of sight
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
        if (band.drawn !== key || change) band.drawn = ""; // drawn when it becomes visible
        continue;
      }
      const g = band.canvas.getContext("2d")!;
      if (band.drawn === key) {
        change?.(g, i * tall, tall);
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
      paint(g, i * tall, tall);
      band.drawn = key;
    }
  }
}
