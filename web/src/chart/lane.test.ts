import { expect, it } from "vitest";
import type { ColumnSeries } from "../api/types";
import { hashOf, holdsOf, placeIn } from "./lane";

function held(pod: string, time: number[], container = ""): ColumnSeries {
  return {
    metric: "gpu_util",
    unit: "ratio",
    uuid: "GPU-1",
    gpu: "0",
    hostname: "h",
    mig: "",
    instance: "",
    namespace: "team",
    pod,
    container,
    time,
    value: time.map(() => 1),
  };
}

it("tells who held a GPU, one after another", () => {
  const holds = holdsOf([held("b", [30, 40]), held("a", [0, 10]), held("", [20])], 15);
  expect(holds.map(({ pod, start, end }) => [pod, start, end])).toEqual([
    ["a", 0, 10],
    ["b", 30, 40],
  ]);
});

it("ends a hold with a silence, and bridges a short one", () => {
  expect(holdsOf([held("a", [0, 10, 100])], 15)).toHaveLength(2);
  expect(holdsOf([held("a", [0, 10, 100])], 90)).toHaveLength(1);
});

it("takes the containers of a pod together", () => {
  const holds = holdsOf([held("a", [0, 10], "one"), held("a", [5, 20], "two")], 15);
  expect(holds.map(({ start, end }) => [start, end])).toEqual([[0, 20]]);
});

it("places intervals in a span, and none that are outside", () => {
  const span = { start: 100, end: 200 };
  expect(placeIn(span, { start: 50, end: 140 }, 10)).toEqual({ left: 0, width: 50 });
  expect(placeIn(span, { start: 150, end: 500 }, 10)).toEqual({ left: 50, width: 50 });
  expect(placeIn(span, { start: 0, end: 50 }, 10)).toBeNull();
});

it("gives a name the same colour every time", () => {
  expect(hashOf("team / pod")).toBe(hashOf("team / pod"));
  expect(hashOf("a")).not.toBe(hashOf("b"));
});
