/**
 * Series as charts draw them: lines of one GPU, pods set aside, with gaps where nothing was
 * measured. Pure: the gateway's columns and live rows in, arrays of one time axis out.
 */

import { fullName, gpuName, type Placed } from "../api/gpu";
import type { ColumnSeries, LiveRows } from "../api/types";

export type Values = (number | null)[];

/** A line: what one (uuid, mig, instance) measured, whoever held it. */
export interface Line extends Placed {
  readonly key: string;
  readonly metric: string;
  readonly unit: string;
  readonly instance: string;
  readonly time: number[];
  readonly value: Values;
  /** Bounds of each rolled-up point; empty when points are readings. */
  readonly low: Values;
  readonly high: Values;
}

export function lineKey(of: {
  metric: string;
  uuid: string;
  mig: string;
  instance: string;
}): string {
  return [of.metric, of.uuid, of.mig, of.instance].join("\u0000");
}

/** One line for each device and instance: a new pod does not begin a new line. */
export function linesOf(series: readonly ColumnSeries[]): Map<string, Line> {
  const parts = new Map<string, ColumnSeries[]>();
  for (const each of series) {
    const key = lineKey(each);
    const known = parts.get(key);
    if (known) known.push(each);
    else parts.set(key, [each]);
  }
  return new Map([...parts].map(([key, own]) => [key, joined(key, own)]));
}

function joined(key: string, parts: readonly ColumnSeries[]): Line {
  const first = parts[0] as ColumnSeries;
  const { metric, unit, uuid, gpu, hostname, mig, instance } = first;
  const identity = { key, metric, unit, uuid, gpu, hostname, mig, instance };
  if (parts.length === 1) {
    const { time, value, min, max } = first;
    return {
      ...identity,
      time: [...time],
      value: [...value],
      low: [...(min ?? [])],
      high: [...(max ?? [])],
    };
  }
  return { ...identity, ...merged(parts) };
}

interface Points {
  readonly time: number[];
  readonly value: Values;
  readonly low: Values;
  readonly high: Values;
}

/** Points of several pods on one time axis; where they meet, the device has one value. */
function merged(parts: readonly ColumnSeries[]): Points {
  const banded = parts.some((part) => part.min && part.max);
  const points = parts
    .flatMap((part) =>
      part.time.map((time, at) => ({
        time,
        value: part.value[at] ?? null,
        low: part.min?.[at] ?? null,
        high: part.max?.[at] ?? null,
      })),
    )
    .sort((one, other) => one.time - other.time);
  const found: Points = { time: [], value: [], low: [], high: [] };
  for (const point of points) {
    const last = found.time.length - 1;
    if (found.time[last] === point.time) {
      found.value[last] = middle(found.value[last] ?? null, point.value);
      if (banded) found.low[last] = extreme(Math.min, found.low[last] ?? null, point.low);
      if (banded) found.high[last] = extreme(Math.max, found.high[last] ?? null, point.high);
      continue;
    }
    found.time.push(point.time);
    found.value.push(point.value);
    if (banded) found.low.push(point.low);
    if (banded) found.high.push(point.high);
  }
  return found;
}

function middle(one: number | null, other: number | null): number | null {
  return one === null ? other : other === null ? one : (one + other) / 2;
}

function extreme(
  pick: (...values: number[]) => number,
  one: number | null,
  other: number | null,
): number | null {
  return one === null ? other : other === null ? one : pick(one, other);
}

/** Adds live rows to lines that are there; returns whether any was. Older rows are left out. */
export function append(lines: ReadonlyMap<string, Line>, rows: LiveRows): boolean {
  let added = false;
  rows.uuid.forEach((uuid, row) => {
    const [metric, mig] = [rows.metric[row] ?? "", rows.mig[row] ?? ""];
    const line = lines.get(lineKey({ metric, uuid, mig, instance: rows.instance[row] ?? "" }));
    const time = rows.timestamp[row] ?? 0;
    if (!line || line.low.length > 0 || time <= (line.time.at(-1) ?? 0)) return;
    line.time.push(time);
    line.value.push(rows.value[row] ?? null);
    added = true;
  });
  return added;
}

/** Gives new lines what live rows had added to old ones and the tables do not have yet. */
export function carryOver(old: ReadonlyMap<string, Line>, fresh: ReadonlyMap<string, Line>): void {
  for (const [key, line] of fresh) {
    const before = old.get(key);
    const last = line.time.at(-1);
    if (!before || last === undefined || before.low.length > 0) continue;
    const from = before.time.findIndex((time) => time > last);
    if (from < 0) continue;
    line.time.push(...before.time.slice(from));
    line.value.push(...before.value.slice(from));
  }
}

/** Forgets points before a time, once there are enough of them to be worth it. */
export function trim(line: Line, before: number): void {
  const gone = line.time.findIndex((time) => time >= before);
  const count = gone < 0 ? line.time.length : gone;
  if (count < 100) return;
  for (const column of [line.time, line.value, line.low, line.high]) column.splice(0, count);
}

export function lineLabel(line: Line, how: "full" | "short"): string {
  const name = how === "full" ? fullName(line) : gpuName(line);
  return line.instance ? `${name} · ${line.instance}` : name;
}

/** uPlot's form: one time axis, `null` for a gap, `undefined` where a line has no point. */
export type Aligned = [number[], ...(number | null | undefined)[][]];

export interface Drawn {
  readonly time: readonly number[];
  readonly value: readonly (number | null)[];
  readonly low: readonly (number | null)[];
  readonly high: readonly (number | null)[];
}

/**
 * Lines on one time axis. With bands each line takes three columns: value, low, high. Where a line
 * has no point for more than `gapMs` a null stands just after its last one, so that nothing is
 * drawn across.
 */
export function align(lines: readonly Drawn[], gapMs: number, banded: boolean): Aligned {
  const axis = axisOf(lines, gapMs);
  const place = new Map(axis.map((time, index) => [time, index]));
  const columns = lines.flatMap((line) => {
    const own = banded ? [line.value, line.low, line.high] : [line.value];
    return own.map((values) => spread(line.time, values, place, axis.length, gapMs));
  });
  return [axis, ...columns];
}

function axisOf(lines: readonly Drawn[], gapMs: number): number[] {
  const times = new Set<number>();
  for (const { time } of lines) {
    time.forEach((at, index) => {
      times.add(at);
      const next = time[index + 1];
      if (next !== undefined && next - at > gapMs) times.add(at + 1);
    });
  }
  return [...times].sort((one, other) => one - other);
}

function spread(
  time: readonly number[],
  values: readonly (number | null)[],
  place: ReadonlyMap<number, number>,
  length: number,
  gapMs: number,
): (number | null | undefined)[] {
  const column = new Array<number | null | undefined>(length).fill(undefined);
  time.forEach((at, index) => {
    column[place.get(at) as number] = values[index] ?? null;
    const next = time[index + 1];
    const edge = next !== undefined && next - at > gapMs ? place.get(at + 1) : undefined;
    if (edge !== undefined) column[edge] = null;
  });
  return column;
}

/** How far apart points may be before there is a gap: readings decide by their own beat. */
export function gapOf(lines: readonly Drawn[], stepMs: number | null): number {
  if (stepMs !== null) return stepMs * 1.5;
  const beats = lines.map(({ time }) => beatOf(time)).filter((beat) => beat > 0);
  return beats.length > 0 ? Math.max(2_500, 2.5 * Math.max(...beats)) : 10_000;
}

/** The usual distance between points: the median of the last few. */
function beatOf(time: readonly number[]): number {
  const recent = time.slice(-41);
  const steps = recent.slice(1).map((at, index) => at - (recent[index] as number));
  return steps.sort((one, other) => one - other)[steps.length >> 1] ?? 0;
}

/** The step of a resolution's name; null for readings as they were taken. */
export function stepOf(resolution: string): number | null {
  const found = /^(\d+)([smhd])$/.exec(resolution);
  const unit = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }[found?.[2] ?? ""];
  return found && unit ? Number(found[1]) * unit : null;
}
