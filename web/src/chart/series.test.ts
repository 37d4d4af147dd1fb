import { describe, expect, it } from "vitest";
import type { ColumnSeries, LiveRows } from "../api/types";
import {
  align,
  append,
  carryOver,
  gapOf,
  lineLabel,
  linesOf,
  stepOf,
  trim,
  type Line,
} from "./series";

function series(more: Partial<ColumnSeries>): ColumnSeries {
  return {
    metric: "power",
    unit: "W",
    uuid: "GPU-1",
    gpu: "3",
    hostname: "h1",
    mig: "",
    instance: "",
    namespace: "",
    pod: "",
    container: "",
    time: [],
    value: [],
    ...more,
  };
}

function only(...parts: ColumnSeries[]): Line {
  const [line, ...more] = linesOf(parts).values();
  expect(more).toEqual([]);
  return line as Line;
}

describe("lines", () => {
  it("go on when another pod takes the GPU", () => {
    const line = only(
      series({ pod: "b", time: [3000, 4000], value: [3, 4] }),
      series({ pod: "a", time: [1000, 2000], value: [1, 2] }),
    );
    expect([line.time, line.value]).toEqual([
      [1000, 2000, 3000, 4000],
      [1, 2, 3, 4],
    ]);
  });

  it("have one value where pods share a GPU", () => {
    const line = only(
      series({ pod: "a", time: [0, 60], value: [10, 10], min: [1, 2], max: [20, 20] }),
      series({ pod: "b", time: [60], value: [20], min: [5], max: [30] }),
    );
    expect([line.value, line.low, line.high]).toEqual([
      [10, 15],
      [1, 2],
      [20, 30],
    ]);
  });

  it("are apart for each instance, and named by host and GPU", () => {
    const lines = linesOf([series({ instance: "link=0" }), series({ instance: "link=1" })]);
    expect([...lines.values()].map((line) => lineLabel(line, "full"))).toEqual([
      "h1 · GPU 3 · link=0",
      "h1 · GPU 3 · link=1",
    ]);
  });
});

function rows(time: number, value: number | null, uuid = "GPU-1"): LiveRows {
  return {
    timestamp: [time],
    metric: ["power"],
    value: [value],
    uuid: [uuid],
    gpu: ["3"],
    hostname: ["h1"],
    mig: [""],
    instance: [""],
    namespace: [""],
    pod: [""],
    cluster: ["c"],
  };
}

describe("live rows", () => {
  it("are added to their line, once", () => {
    const lines = linesOf([series({ time: [1000], value: [1] })]);
    expect(append(lines, rows(2000, 2))).toBe(true);
    expect(append(lines, rows(2000, 2))).toBe(false);
    expect(append(lines, rows(3000, 2, "GPU-2"))).toBe(false);
    expect([...lines.values()][0]?.value).toEqual([1, 2]);
  });

  it("never mix with rolled-up points", () => {
    const lines = linesOf([series({ time: [0], value: [1], min: [0], max: [2] })]);
    expect(append(lines, rows(2000, 2))).toBe(false);
  });

  it("outlive a new answer of the tables, which are a little behind", () => {
    const old = linesOf([series({ time: [1000, 2000], value: [1, 2] })]);
    append(old, rows(3000, 3));
    const fresh = linesOf([series({ time: [1000, 2000], value: [1, 2] })]);
    carryOver(old, fresh);
    expect([...fresh.values()][0]?.time).toEqual([1000, 2000, 3000]);
  });

  it("push out what is too old", () => {
    const time = Array.from({ length: 300 }, (_, at) => at);
    const line = only(series({ time, value: time }));
    trim(line, 250);
    expect([line.time[0], line.time.length, line.value.length]).toEqual([250, 50, 50]);
  });
});

describe("on one time axis", () => {
  const drawn = (time: number[], value: (number | null)[]) => ({ time, value, low: [], high: [] });

  it("lines of different times leave holes that nothing is drawn into, yet lines go on", () => {
    const [axis, one, other] = align([drawn([0, 10], [1, 2]), drawn([5], [3])], 60, false);
    expect(axis).toEqual([0, 5, 10]);
    expect([one, other]).toEqual([
      [1, undefined, 2],
      [undefined, 3, undefined],
    ]);
  });

  it("a silence is a gap", () => {
    const [axis, values] = align([drawn([0, 10, 100], [1, 2, 3])], 25, false);
    expect(axis).toEqual([0, 10, 11, 100]);
    expect(values).toEqual([1, 2, null, 3]);
  });

  it("what was not collected is a gap too", () => {
    expect(align([drawn([0, 10], [1, null])], 25, false)[1]).toEqual([1, null]);
  });

  it("bands have their low and high beside the value", () => {
    const line = { time: [0], value: [5], low: [1], high: [9] };
    expect(align([line], 25, true)).toEqual([[0], [5], [1], [9]]);
  });

  it("a gap is some beats of the readings, or more than a step", () => {
    const everySecond = drawn(
      Array.from({ length: 50 }, (_, at) => at * 1000),
      [],
    );
    expect(gapOf([everySecond], null)).toBe(2500);
    expect(gapOf([everySecond], 60_000)).toBe(90_000);
    expect([stepOf("raw"), stepOf("10s"), stepOf("1h")]).toEqual([null, 10_000, 3_600_000]);
  });
});
