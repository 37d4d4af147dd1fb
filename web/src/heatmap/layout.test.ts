import { describe, expect, it } from "vitest";
import type { Gpu } from "../api/types";
import { cellAt, hostAt, layOut, neighbour, type Cell } from "./layout";

function gpu(host: string, index: string, more: Partial<Gpu> = {}): Gpu {
  return {
    uuid: `GPU-${host}-${index}`,
    gpu: index,
    device: "",
    model: "",
    hostname: host,
    cluster: "c",
    namespace: "",
    pod: "",
    container: "",
    mig: "",
    state: "free",
    last_seen: "",
    first_seen: "",
    busy: 0,
    ...more,
  };
}

function fleet(hosts: number, each = 8): Gpu[] {
  return Array.from({ length: hosts * each }, (_, n) =>
    gpu(`h${Math.floor(n / each)}`, String(n % each)),
  );
}

function overlap(one: Cell, other: Cell): boolean {
  const apart = one.x + one.width <= other.x || other.x + other.width <= one.x;
  return !apart && one.y < other.y + other.height && other.y < one.y + one.height;
}

describe("a layout", () => {
  it("has a cell for every GPU, none over another, none outside", () => {
    for (const [hosts, width] of [
      [4, 1400],
      [60, 1400],
      [4, 360],
      [30, 700],
    ] as const) {
      const layout = layOut(fleet(hosts), width);
      expect(layout.cells).toHaveLength(hosts * 8);
      for (const cell of layout.cells) {
        expect(cell.x + cell.width).toBeLessThanOrEqual(width);
        expect(cell.y + cell.height).toBeLessThanOrEqual(layout.height);
      }
      const clash = layout.cells.some((one, at) =>
        layout.cells.slice(at + 1).some((other) => overlap(one, other)),
      );
      expect(clash).toBe(false);
    }
  });

  it("shows values and names to few hosts, and 8,000 GPUs on a screen", () => {
    expect(layOut(fleet(4), 1400).showsValues).toBe(true);
    const large = layOut(fleet(1000), 1400);
    expect(large.cells).toHaveLength(8000);
    expect(large.height).toBeLessThan(900);
    expect(large.labels).toHaveLength(0);
  });

  it("leaves the place of a missing index empty", () => {
    const { cells } = layOut([gpu("h1", "0"), gpu("h1", "2")], 1400);
    const [first, second] = cells as [Cell, Cell];
    expect(second.x - first.x).toBeGreaterThan(1.9 * first.width);
  });

  it("parts a GPU's cell among its MIG instances", () => {
    const whole = layOut([gpu("h1", "0"), gpu("h1", "1")], 1400).cells[0] as Cell;
    const parts = layOut(
      [gpu("h1", "0", { mig: "1" }), gpu("h1", "0", { mig: "2" }), gpu("h1", "1")],
      1400,
    );
    expect(parts.cells[0]?.width).toBeLessThan(whole.width * 0.51);
    expect(parts.cells[2]?.x).toBe(parts.cells[0]!.x + whole.width + 3);
  });

  it("copes with indexes that are no numbers, and with no GPUs", () => {
    expect(layOut([gpu("h1", ""), gpu("h1", "many"), gpu("h1", "999999")], 800).cells).toHaveLength(
      3,
    );
    expect(layOut([], 800).cells).toEqual([]);
  });

  it("gives each cluster a heading when there are several", () => {
    const two = [...fleet(2), ...fleet(2).map((each) => ({ ...each, cluster: "d" }))];
    const headings = layOut(two, 1400).labels.filter((label) => label.kind === "cluster");
    expect(headings.map((label) => label.text)).toEqual(["c", "d"]);
  });
});

describe("finding cells", () => {
  const layout = layOut(fleet(4), 1400);

  it("by point", () => {
    layout.cells.forEach((cell, index) => {
      expect(cellAt(layout, cell.x + cell.width / 2, cell.y + cell.height / 2)).toBe(index);
    });
    expect(cellAt(layout, -50, -50)).toBe(-1);
  });

  it("by host name", () => {
    const label = layout.labels.find((each) => each.text === "h2")!;
    expect(hostAt(layout, label.x + 2, label.y + 5)?.text).toBe("h2");
    expect(hostAt(layout, label.x + 2, -5)).toBeUndefined();
  });

  it("by arrow keys, to the right and back, and not off the edge", () => {
    const right = neighbour(layout, 0, 1, 0);
    expect(layout.cells[right]?.gpu.gpu).toBe("1");
    expect(neighbour(layout, right, -1, 0)).toBe(0);
    expect(neighbour(layout, 0, -1, 0)).toBe(0);
    expect(layout.cells[neighbour(layout, 0, 0, 1)]?.gpu.hostname).toBe("h1");
    expect(neighbour(layout, -1, 0, 1)).toBe(0);
  });
});
