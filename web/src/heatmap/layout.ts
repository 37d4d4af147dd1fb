/**
 * Where each GPU's cell is: a strip of cells for each host, strips in columns, clusters in blocks.
 *
 * A small fleet has large cells with names and values in them; the more hosts there are, the
 * smaller everything becomes, until 8,000 GPUs fit a screen. Pure: GPUs and a width in, boxes out.
 */

import { inPlace } from "../api/gpu";
import type { Gpu } from "../api/types";

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface Cell extends Box {
  readonly gpu: Gpu;
}

export interface Label {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly text: string;
  readonly kind: "cluster" | "host" | "index";
  /** The cluster that a host is of. */
  readonly cluster?: string;
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly cells: readonly Cell[];
  readonly labels: readonly Label[];
  readonly showsValues: boolean;
}

interface Density {
  readonly row: number;
  readonly cellMin: number;
  readonly cellMax: number;
  readonly gap: number;
  readonly label: number;
  readonly between: number;
}

const DENSITIES: readonly Density[] = [
  { row: 30, cellMin: 52, cellMax: 220, gap: 3, label: 200, between: 28 },
  { row: 18, cellMin: 18, cellMax: 26, gap: 2, label: 130, between: 24 },
  { row: 12, cellMin: 12, cellMax: 14, gap: 2, label: 0, between: 12 },
  { row: 9, cellMin: 9, cellMax: 11, gap: 1, label: 0, between: 8 },
];

const HEIGHT_WANTED = 560;
const CLUSTER_HEADING = 26;
const INDEX_HEADING = 20;

export function layOut(gpus: readonly Gpu[], width: number): Layout {
  const blocks = clustersOf(gpus);
  const wide = Math.max(1, ...blocks.flatMap((block) => block.hosts.map((host) => host.slots)));
  const made = DENSITIES.map((density) => () => place(blocks, wide, width, density));
  let last: Layout | null = null;
  for (const make of made) {
    last = make();
    if (last.height <= HEIGHT_WANTED) break;
  }
  return last ?? { width, height: 0, cells: [], labels: [], showsValues: false };
}

interface Host {
  readonly name: string;
  /** One past the highest index, so that a GPU that is not there leaves its place empty. */
  readonly slots: number;
  readonly gpus: readonly (readonly Gpu[])[];
}

interface Block {
  readonly cluster: string;
  readonly hosts: readonly Host[];
}

function clustersOf(gpus: readonly Gpu[]): Block[] {
  const sorted = [...gpus].sort(inPlace);
  return groupsOf(sorted, (gpu) => gpu.cluster).map(([cluster, members]) => ({
    cluster,
    hosts: groupsOf(members, (gpu) => gpu.hostname).map(([name, own]) => hostOf(name, own)),
  }));
}

const SLOTS_MAX = 32;

/** GPUs by their index; one without a sensible index takes the next place. */
function hostOf(name: string, gpus: readonly Gpu[]): Host {
  const places: Gpu[][] = [];
  for (const gpu of gpus) {
    const index = /^\d{1,2}$/.test(gpu.gpu) ? Number(gpu.gpu) : places.length;
    const place = index < SLOTS_MAX ? index : places.length;
    (places[place] ??= []).push(gpu);
  }
  return { name, slots: places.length, gpus: Array.from(places, (place) => place ?? []) };
}

function groupsOf<T>(items: readonly T[], keyOf: (item: T) => string): [string, T[]][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return [...groups];
}

const LETTER = 7.2;
const LABEL_MIN = 56;

/** Names get the room that they need, up to what the density allows. */
function labelled(size: Density, blocks: readonly Block[], width: number): Density {
  const longest = Math.max(
    0,
    ...blocks.flatMap((block) => block.hosts.map((host) => host.name.length)),
  );
  const wanted = Math.max(LABEL_MIN, longest * LETTER + 16);
  return { ...size, label: Math.round(Math.min(size.label, wanted, width * 0.35)) };
}

function place(blocks: readonly Block[], slots: number, width: number, density: Density): Layout {
  const size = labelled(density, blocks, width);
  const narrow = size.label + slots * (size.cellMin + size.gap);
  const columns = Math.max(1, Math.floor((width + size.between) / (narrow + size.between)));
  const most = Math.max(...blocks.map((block) => block.hosts.length), 1);
  const used = Math.min(columns, most);
  const strip = (width - (used - 1) * size.between) / used;
  const room = (strip - size.label) / slots - size.gap;
  const cell = Math.max(4, Math.min(size.cellMax, Math.floor(room)));
  return new Placing(size, { columns: used, strip, cell, slots }, width).all(blocks);
}

interface Grid {
  readonly columns: number;
  readonly strip: number;
  readonly cell: number;
  readonly slots: number;
}

class Placing {
  private readonly cells: Cell[] = [];
  private readonly labels: Label[] = [];
  private y = 0;

  constructor(
    private readonly size: Density,
    private readonly grid: Grid,
    private readonly width: number,
  ) {}

  all(blocks: readonly Block[]): Layout {
    for (const block of blocks) this.block(block, blocks.length > 1);
    const showsValues = this.size.row >= 24 && this.grid.cell >= 40;
    const { cells, labels, width } = this;
    return { width, height: Math.ceil(this.y), cells, labels, showsValues };
  }

  private block(block: Block, titled: boolean): void {
    if (titled) this.title(block.cluster || "no cluster");
    const perColumn = Math.ceil(block.hosts.length / this.grid.columns);
    const step = this.size.row + this.size.gap;
    if (this.size.label > 0 && this.grid.cell >= 18) this.indices(block.hosts.length);
    block.hosts.forEach((host, number) => {
      const column = Math.floor(number / perColumn);
      const x = Math.round(column * (this.grid.strip + this.size.between));
      this.host(host, block.cluster, x, this.y + (number % perColumn) * step);
    });
    this.y += perColumn * step + 10;
  }

  private title(text: string): void {
    this.labels.push({ x: 0, y: this.y, width: this.width, text, kind: "cluster" });
    this.y += CLUSTER_HEADING;
  }

  private indices(hosts: number): void {
    const perColumn = Math.ceil(hosts / this.grid.columns);
    const columns = Math.ceil(hosts / perColumn);
    for (let column = 0; column < columns; column += 1) {
      const left = Math.round(column * (this.grid.strip + this.size.between)) + this.size.label;
      for (let slot = 0; slot < this.grid.slots; slot += 1) {
        const x = left + slot * (this.grid.cell + this.size.gap);
        const text = this.grid.cell >= 50 ? `GPU ${slot}` : String(slot);
        this.labels.push({ x, y: this.y, width: this.grid.cell, text, kind: "index" });
      }
    }
    this.y += INDEX_HEADING;
  }

  private host(host: Host, cluster: string, left: number, y: number): void {
    if (this.size.label > 0) {
      const width = this.size.label - 12;
      this.labels.push({ x: left, y, width, text: host.name, kind: "host", cluster });
    }
    host.gpus.forEach((instances, slot) => {
      const x = left + this.size.label + slot * (this.grid.cell + this.size.gap);
      const width = this.grid.cell / Math.max(1, instances.length);
      instances.forEach((gpu, part) => {
        const inner = instances.length > 1 && part < instances.length - 1 ? 1 : 0;
        const box = { x: x + part * width, y, width: width - inner, height: this.size.row };
        this.cells.push({ ...box, gpu });
      });
    });
  }
}

/** The cell at a point, or the one nearest to it within a few pixels; -1 if there is none. */
export function cellAt(layout: Layout, x: number, y: number): number {
  const slack = 2;
  return layout.cells.findIndex(
    (cell) =>
      x >= cell.x - slack &&
      x < cell.x + cell.width + slack &&
      y >= cell.y - slack &&
      y < cell.y + cell.height + slack,
  );
}

/** The host whose name is at a point. */
export function hostAt(layout: Layout, x: number, y: number): Label | undefined {
  const row = layout.cells[0]?.height ?? 0;
  return layout.labels.find(
    (label) =>
      label.kind === "host" &&
      x >= label.x &&
      x < label.x + label.width &&
      y >= label.y &&
      y < label.y + row,
  );
}

/** The nearest cell in a direction: what the arrow keys move to. */
export function neighbour(layout: Layout, from: number, dx: number, dy: number): number {
  const start = layout.cells[from];
  if (!start) return layout.cells.length > 0 ? 0 : -1;
  let [best, least] = [from, Infinity];
  layout.cells.forEach((cell, index) => {
    const along = dx * (centreX(cell) - centreX(start)) + dy * (cell.y - start.y);
    const across = Math.abs(dy * (centreX(cell) - centreX(start)) + dx * (cell.y - start.y));
    if (along <= 0.5 || across > along * 2 + start.width) return;
    const distance = along + 4 * across;
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}

function centreX(cell: Cell): number {
  return cell.x + cell.width / 2;
}
