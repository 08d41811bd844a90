// Where the pods of nodes being removed are planned to run: as lines between the boxes, and in words.

import { t } from "./language";
import type { Box, Layout } from "./layout";
import type { Palette } from "./paint";
import { goes, type ClusterState, type NodeRow } from "./state";
import { plural } from "./text";

/** Moves are keyed by the NodeClaim of the removed node; to is a Node, or a NodeClaim without a Node. */
export type Moves = Map<string, { to: string; pods: number }[]>;

/** Flow is a line from a node's box to the box of a node that gets its pods. */
export interface Flow {
  from: Box;
  to: Box;
  pods: number;
}

const most = 200; // lines
const named = 6; // nodes, in words

/** leaves reports whether a node is being removed but still exists: the pods of other nodes have left already. */
const leaves = (m: NodeRow): boolean => m.hasNode && goes.has(m.status);

/** flowsOf returns the lines between visible boxes. */
export function flowsOf(l: Layout, moves: Moves): Flow[] {
  const out: Flow[] = [], boxes = new Map<string, Box>();
  if (moves.size > 0) for (const b of l.boxes) boxes.set(b.m.claim, b).set(b.m.name, b);
  for (const [claim, list] of moves) {
    const from = boxes.get(claim);
    if (!from || !leaves(from.m)) continue;
    for (const { to, pods } of list) {
      const box = boxes.get(to);
      if (box && out.length < most) out.push({ from, to: box, pods });
    }
  }
  return out;
}

/** sameFlows returns a key that is equal for lines that look the same in one layout. */
export const sameFlows = (flows: Flow[]): string => flows.map((f) => `${f.from.m.id}>${f.to.m.id}${f.to.m.hasNode}${f.pods}`).join();

/** drawFlows draws the lines that come near the part between top and top+tall: dashed if their target has no Node yet. */
export function drawFlows(g: CanvasRenderingContext2D, flows: Flow[], p: Palette, top: number, wide: number, tall: number): void {
  g.clearRect(0, 0, wide, tall);
  g.save();
  g.translate(0, -top);
  g.lineCap = "round";
  for (const f of flows) {
    const [x0, y0] = middle(f.from), [x1, y1] = middle(f.to), long = Math.hypot(x1 - x0, y1 - y0), bend = 0.18;
    if (Math.max(y0, y1) + bend * long < top || Math.min(y0, y1) - bend * long > top + tall) continue;
    const x = (x0 + x1) / 2 + bend * (y1 - y0), y = (y0 + y1) / 2 - bend * (x1 - x0), turn = Math.atan2(y1 - y, x1 - x);
    const line = new Path2D(), head = new Path2D(), side = 9;
    line.moveTo(x0, y0);
    line.quadraticCurveTo(x, y, x1 - 0.7 * side * Math.cos(turn), y1 - 0.7 * side * Math.sin(turn));
    head.moveTo(x1, y1);
    for (const by of [0.45, -0.45]) head.lineTo(x1 - side * Math.cos(turn + by), y1 - side * Math.sin(turn + by));
    head.closePath();
    const width = Math.min(5, 1.5 + Math.log2(f.pods) / 2);
    for (const [color, more] of [[p.box, 3], [p.goes, 0]] as const) { // the edge separates the line from what it crosses
      g.strokeStyle = g.fillStyle = color;
      g.lineWidth = width + more;
      if (!f.to.m.hasNode && more === 0) g.setLineDash([6, 5]);
      g.stroke(line);
      g.setLineDash([]);
      g.lineWidth = 1 + more;
      g.stroke(head);
      g.fill(head);
    }
  }
  g.restore();
}

const middle = (b: Box): [number, number] => [b.x + b.w / 2, b.y + b.h / 2];

/** planOf describes where the pods of a node are planned to run; "" if no plan removes the node. */
export function planOf(m: NodeRow, w: ClusterState): string {
  const list = (leaves(m) && w.moves.get(m.claim)) || [];
  const parts = list.slice(0, named).map(({ to, pods }) => t(`${plural(pods, "pod")} to ${w.nameOf(to)}`));
  if (list.length > named) parts.push(t(`others to ${plural(list.length - named, "more node")}`));
  return parts.join(", ");
}
