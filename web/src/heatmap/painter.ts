/**
 * Draws cells on a canvas, and again only those whose look has changed, once a frame.
 *
 * A frame paints a bounded number of cells; what is left waits for the next one, so that a burst
 * of readings never makes the page stutter.
 */

import { isBright, NO_DATA } from "./colour";
import type { Cell, Layout } from "./layout";

/** How a cell looks now; asked for again whenever it may have changed. */
export interface Looks {
  /** An index into the colours, or NO_DATA for hatching. */
  readonly level: (index: number) => number;
  /** What a large cell says. */
  readonly text: (index: number) => string;
}

interface Look {
  readonly level: number;
  readonly text: string;
}

export interface Paints {
  readonly colours: readonly string[];
  readonly hatch: readonly [ground: string, line: string];
  readonly label: string;
  readonly muted: string;
}

const CELLS_PER_FRAME = 2_000;
const FONT = '"Inter Variable", system-ui, sans-serif';

export class Painter {
  private readonly context: CanvasRenderingContext2D;
  private shown: (Look | null)[] = [];
  private waiting = new Set<number>();
  private frame = 0;
  private hatch: CanvasPattern | string = "";

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly layout: Layout,
    private readonly paints: Paints,
    private readonly looks: Looks,
  ) {
    const context = canvas.getContext("2d", { alpha: true });
    if (!context) throw new Error("this browser has no canvas");
    this.context = context;
    this.fit();
    this.labels();
    // All at once the first time: a map that fills up in steps would flicker.
    layout.cells.forEach((_, index) => this.repaint(index));
  }

  /** Says that a cell may look different now. */
  touch(index: number): void {
    this.waiting.add(index);
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.paint());
  }

  touchAll(): void {
    this.layout.cells.forEach((_, index) => this.touch(index));
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
  }

  private fit(): void {
    const ratio = devicePixelRatio || 1;
    const { width, height } = this.layout;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.hatch = hatching(this.context, this.paints.hatch);
  }

  private labels(): void {
    const { context } = this;
    context.textBaseline = "middle";
    for (const label of this.layout.labels) {
      const heading = label.kind === "cluster";
      context.font = heading ? `600 12px ${FONT}` : `12px ${FONT}`;
      context.fillStyle = label.kind === "index" ? this.paints.muted : this.paints.label;
      context.textAlign = label.kind === "index" ? "center" : "left";
      const x = label.kind === "index" ? label.x + label.width / 2 : label.x;
      const middle = label.kind === "host" ? this.rowMiddle() : 9;
      context.fillText(fitted(context, label.text, label.width), x, label.y + middle);
    }
  }

  private rowMiddle(): number {
    return (this.layout.cells[0]?.height ?? 0) / 2 + 0.5;
  }

  private paint(): void {
    this.frame = 0;
    let painted = 0;
    for (const index of this.waiting) {
      this.waiting.delete(index);
      if (this.repaint(index)) painted += 1;
      if (painted >= CELLS_PER_FRAME) break;
    }
    if (this.waiting.size > 0) this.frame = requestAnimationFrame(() => this.paint());
  }

  /** Whether there was anything to paint. */
  private repaint(index: number): boolean {
    const [cell, before] = [this.layout.cells[index], this.shown[index]];
    const level = this.looks.level(index);
    const text = this.layout.showsValues ? this.looks.text(index) : "";
    if (!cell || (before?.level === level && before.text === text)) return false;
    this.shown[index] = { level, text };
    this.fill(cell, level);
    if (text) this.write(cell, level, text);
    return true;
  }

  private fill(cell: Cell, level: number): void {
    this.context.fillStyle = level === NO_DATA ? this.hatch : (this.paints.colours[level] ?? "");
    this.context.fillRect(cell.x, cell.y, cell.width, cell.height);
  }

  private write(cell: Cell, level: number, text: string): void {
    const { context } = this;
    const colour = this.paints.colours[level];
    context.font = `500 12px ${FONT}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = this.paints.muted;
    if (colour) context.fillStyle = isBright(colour) ? "#0b1018" : "#ffffff";
    context.fillText(text, cell.x + cell.width / 2, cell.y + cell.height / 2 + 0.5, cell.width - 4);
  }
}

function hatching(
  context: CanvasRenderingContext2D,
  [ground, line]: readonly [string, string],
): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const brush = tile.getContext("2d");
  if (!brush) return ground;
  brush.fillStyle = ground;
  brush.fillRect(0, 0, 6, 6);
  brush.strokeStyle = line;
  brush.lineWidth = 1.2;
  brush.beginPath();
  for (const at of [-3, 3, 9]) {
    brush.moveTo(at - 3, 6);
    brush.lineTo(at + 3, 0);
  }
  brush.stroke();
  return context.createPattern(tile, "repeat") ?? ground;
}

/** A text cut so that it fits, with an ellipsis where it was cut. */
function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}
