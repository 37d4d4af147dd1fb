/** Charts of the whole fleet: GPUs' series gathered by host or namespace, at each step of time. */

import { compare, keyOf } from "../api/gpu";
import type { ColumnSeries } from "../api/types";
import type { Drawn } from "../chart/series";
import type { Grouping } from "../state/view";

export type How = "mean" | "sum";

export interface Gathered extends Drawn {
  readonly label: string;
}

/** The lines with the largest values that a chart shows; more would be a tangle. */
export const LINES_MAX = 12;

export interface Gathering {
  readonly lines: readonly Gathered[];
  /** Groups that there are, shown or not. */
  readonly groups: number;
}

/**
 * One line a group. A GPU counts once at each time, however many pods share it. The step that has
 * not ended at `now` is left out: some GPUs are not in it yet.
 */
export function gather(
  series: readonly ColumnSeries[],
  by: Grouping,
  how: How,
  complete: number,
): Gathering {
  const groups = new Map<string, Map<number, Map<string, number>>>();
  for (const each of series) {
    const group = within(groups, groupOf(each, by));
    const gpu = keyOf(each.uuid, each.mig);
    each.time.forEach((time, at) => {
      const value = each.value[at];
      if (value === null || value === undefined || time > complete) return;
      within(group, time).set(gpu, value);
    });
  }
  const lines = [...groups].map(([label, times]) => lineOf(label, times, how));
  return { lines: largest(lines), groups: groups.size };
}

/** As many lines as a chart can show, the largest, by name. */
export function largest(lines: readonly Gathered[]): Gathered[] {
  const shown = [...lines].sort((one, other) => size(other) - size(one)).slice(0, LINES_MAX);
  return shown.sort((one, other) => compare(one.label, other.label));
}

/** The group that a GPU is of. */
export function groupOf(of: { hostname: string; namespace: string }, by: Grouping): string {
  if (by === "fleet") return "Fleet";
  return by === "host" ? of.hostname || "no host" : of.namespace || "no namespace";
}

function within<K, L, V>(groups: Map<K, Map<L, V>>, key: K): Map<L, V> {
  const known = groups.get(key);
  if (known) return known;
  const made = new Map<L, V>();
  groups.set(key, made);
  return made;
}

function lineOf(
  label: string,
  times: ReadonlyMap<number, ReadonlyMap<string, number>>,
  how: How,
): Gathered {
  const time = [...times.keys()].sort((one, other) => one - other);
  const value = time.map((at) => {
    const values = [...(times.get(at)?.values() ?? [])];
    const sum = values.reduce((one, other) => one + other, 0);
    return how === "sum" ? sum : sum / values.length;
  });
  return { label, time, value, low: [], high: [] };
}

function size(line: Gathered): number {
  return (
    line.value.reduce<number>((sum, value) => sum + (value ?? 0), 0) / (line.value.length || 1)
  );
}

const STEPS_S = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400];
const POINTS_MAX = 45_000;
const POINTS_PER_LINE = 360;

/** More GPUs than this have too few points each to make a chart. */
export const ASKED_GPUS_MAX = 1_500;

/** The finest step for which every GPU's points fit one answer of the gateway. */
export function stepFor(spanMs: number, gpus: number): number {
  const points = Math.max(2, Math.min(POINTS_PER_LINE, Math.floor(POINTS_MAX / Math.max(1, gpus))));
  return STEPS_S.find((step) => spanMs / 1000 / step <= points) ?? 86_400;
}

export function stepName(seconds: number): string {
  if (seconds % 86_400 === 0) return `${seconds / 86_400}d`;
  if (seconds % 3600 === 0) return `${seconds / 3600}h`;
  return seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`;
}
