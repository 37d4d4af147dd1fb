import { describe, expect, it } from "vitest";
import type { ColumnSeries, Gpu } from "../api/types";
import { gather, LINES_MAX, stepFor, stepName } from "./aggregate";
import { FleetHistory } from "./history";
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

describe("what the page keeps itself", () => {
  it("is each group's mean or sum of what is fresh, look by look", () => {
    const samples = new Latest();
    const history = new FleetHistory();
    const fleet = [gpu("GPU-1"), gpu("GPU-2", { hostname: "h2" }), gpu("GPU-3")];
    samples.take("power", "GPU-1", 100, NOW);
    samples.take("power", "GPU-2", 50, NOW);
    history.look(fleet, "power", "sum", samples, NOW + 1);
    samples.take("power", "GPU-1", 200, NOW + 5);
    history.look(fleet, "power", "sum", samples, NOW + 6);
    const { lines, groups } = history.lines("power", "host");
    expect(groups).toBe(2);
    expect(lines.map(({ label, value }) => [label, value])).toEqual([
      ["h1", [100, 200]],
      ["h2", [50, 50]],
    ]);
    expect(history.lines("power", "fleet").lines[0]?.time).toEqual([NOW + 1, NOW + 6]);
  });
});

describe("lines of the whole fleet", () => {
  const series = (
    uuid: string,
    hostname: string,
    time: number[],
    value: number[],
    pod = "",
  ): ColumnSeries => ({
    metric: "power",
    unit: "W",
    uuid,
    gpu: "0",
    hostname,
    mig: "",
    instance: "",
    namespace: pod && "team",
    pod,
    container: "",
    time,
    value,
  });

  it("count a GPU once, however many pods share it", () => {
    const shared = [
      series("GPU-1", "h1", [0], [100], "a"),
      series("GPU-1", "h1", [0], [100], "b"),
      series("GPU-2", "h2", [0], [50]),
    ];
    expect(gather(shared, "fleet", "sum", 10).lines[0]?.value).toEqual([150]);
    expect(gather(shared, "fleet", "mean", 10).lines[0]?.value).toEqual([75]);
  });

  it("leave out the step that has not ended", () => {
    expect(
      gather([series("GPU-1", "h1", [0, 10], [1, 2])], "fleet", "sum", 9).lines[0]?.time,
    ).toEqual([0]);
  });

  it("are the largest groups when there are many", () => {
    const many = Array.from({ length: 30 }, (_, n) => series(`GPU-${n}`, `h${n}`, [0], [n]));
    const { lines, groups } = gather(many, "host", "sum", 10);
    expect([lines.length, groups]).toEqual([LINES_MAX, 30]);
    expect(lines.map((line) => line.label)).toContain("h29");
  });

  it("have steps whose points fit one answer", () => {
    expect(stepFor(900_000, 32)).toBe(10);
    expect((86_400 / stepFor(86_400_000, 32)) * 32).toBeLessThanOrEqual(45_000);
    expect([10, 60, 7200, 86_400].map(stepName)).toEqual(["10s", "1m", "2h", "1d"]);
  });
});
