import { describe, expect, it } from "vitest";
import { exactly } from "../api/client";
import type { Gpu, GroupSeries } from "../api/types";
import { linesOfGroups, stepFor, stepName } from "./aggregate";
import { hostRows } from "./hosts";
import { Latest } from "./latest";
import { newestSeen, totalsOf } from "./totals";

const NOW = 1_000_000;

function gpu(uuid: string, more: Partial<Gpu> = {}): Gpu {
  return {
    uuid,
    gpu: "0",
    device: "",
    model: "H200",
    hostname: "h1",
    cluster: "c",
    namespace: "",
    pod: "",
    container: "",
    mig: "",
    state: "active",
    last_seen: "2026-01-01T00:00:00Z",
    first_seen: "",
    busy: 0.5,
    ...more,
  };
}

describe("totals", () => {
  const samples = new Latest();
  samples.take("power", "GPU-1", 300, NOW);
  samples.take("power", "GPU-2", 200, NOW - 1_000_000);
  samples.take("power", "GPU-3", null, NOW);
  const fleet = [
    gpu("GPU-1"),
    gpu("GPU-2", { state: "unknown" }),
    gpu("GPU-3", { state: "idle-held", hostname: "h2" }),
  ];

  it("count each state, and add up only what is measured now", () => {
    const totals = totalsOf(fleet, samples.of("power"), NOW);
    expect(totals).toMatchObject({ gpus: 3, hosts: 2, watts: 300, measured: 1 });
    expect(totals.states).toEqual({ active: 1, "idle-held": 1, free: 0, unknown: 1 });
  });

  it("come host by host as well", () => {
    const rows = hostRows(fleet, samples.of("power"), NOW);
    expect(rows.map((row) => [row.host, row.totals.gpus, row.busy])).toEqual([
      ["h1", 2, 0.5],
      ["h2", 1, 0.5],
    ]);
  });

  it("know the newest reading, or that there is none", () => {
    expect(newestSeen(fleet)).toBe(Date.parse("2026-01-01T00:00:00Z"));
    expect(newestSeen([])).toBeNull();
  });
});

describe("the newest samples", () => {
  it("are not replaced by older ones, and are told to whoever listens", () => {
    const samples = new Latest();
    const heard: string[] = [];
    const forget = samples.listen((metric, key) => heard.push(`${metric} ${key}`));
    samples.take("power", "GPU-1", 2, 20);
    samples.take("power", "GPU-1", 1, 10);
    forget();
    samples.take("power", "GPU-1", 3, 30);
    expect(samples.of("power").get("GPU-1")).toEqual({ value: 3, at: 30 });
    expect([heard, samples.newest]).toEqual([["power GPU-1"], 30]);
  });

  it("leave out what is only of a link", () => {
    const samples = new Latest();
    samples.takeColumns({
      data: {
        uuid: ["GPU-1"],
        mig: [""],
        metric: ["nvlink_tx"],
        instance: ["link=1"],
        value: [5],
        timestamp: [1],
      },
    });
    expect(samples.of("nvlink_tx").size).toBe(0);
  });
});

describe("lines of the whole fleet", () => {
  const group = (hostname: string, time: number[], value: number[]): GroupSeries => ({
    hostname,
    metric: "power",
    unit: "W",
    time,
    value,
    sum: value.map((each) => each * 8),
  });

  it("are the means or the sums of groups, by name", () => {
    const groups = [group("h10", [0], [2]), group("h9", [0], [1]), group("", [0], [3])];
    const lines = linesOfGroups(groups, "host", "sum", 10);
    expect(lines.map(({ label, value }) => [label, value])).toEqual([
      ["h9", [8]],
      ["h10", [16]],
      ["no host", [24]],
    ]);
    expect(linesOfGroups(groups, "fleet", "mean", 10)[0]).toMatchObject({
      label: "Fleet",
      value: [2],
    });
  });

  it("leave out the step that has not ended", () => {
    const [line] = linesOfGroups([group("h1", [0, 10], [1, 2])], "host", "sum", 9);
    expect([line?.time, line?.value]).toEqual([[0], [8]]);
  });

  it("are as fine as they can be at a bearable cost", () => {
    expect(stepFor(900_000, 64)).toBe(10);
    expect(stepFor(86_400_000, 64)).toBe(300);
    expect(stepFor(3_600_000, 8_000)).toBe(10);
    expect(stepFor(86_400_000, 16_000)).toBe(3600);
    expect([10, 60, 7200, 86_400].map(stepName)).toEqual(["10s", "1m", "2h", "1d"]);
  });
});

it("a filter's value is said as it stands, whatever is in it", () => {
  expect(["h1", "a,b", "c:\\d", ""].map(exactly)).toEqual(["h1", "a\\,b", "c:\\\\d", "\\"]);
});
