/** Charts of the whole fleet: lines of groups, as the gateway has put them together. */

import { compare } from "../api/gpu";
import type { GroupSeries } from "../api/types";
import type { Drawn } from "../chart/series";
import type { Grouping } from "../state/view";

export type How = "mean" | "sum";

export interface Gathered extends Drawn {
  readonly label: string;
}

/** The lines with the largest values that a chart shows; more would be a tangle. */
export const LINES_MAX = 12;

/** What the gateway calls a grouping; it never puts metrics together. */
export const GROUPED_BY: Readonly<Record<Grouping, string>> = {
  fleet: "metric",
  host: "hostname",
  namespace: "namespace",
};

/**
 * One line a group, by name. A step that has not ended at `complete` is left out: some GPUs are not
 * in it yet.
 */
export function linesOfGroups(
  groups: readonly GroupSeries[],
  by: Grouping,
  how: How,
  complete: number,
): Gathered[] {
  const lines = groups.map((group) => {
    const ended = group.time.filter((time) => time <= complete).length;
    const values = how === "sum" ? group.sum : group.value;
    return {
      label: groupOf(group, by),
      time: group.time.slice(0, ended),
      value: values.slice(0, ended),
      low: [],
      high: [],
    };
  });
  return lines.sort((one, other) => compare(one.label, other.label));
}

/** The group that a GPU, or a line, is of. */
export function groupOf(
  of: { readonly hostname?: string; readonly namespace?: string },
  by: Grouping,
): string {
  if (by === "fleet") return "Fleet";
  return by === "host" ? of.hostname || "no host" : of.namespace || "no namespace";
}

const STEPS_S = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400];
const POINTS_PER_LINE = 360;
/** What the gateway puts together for one chart in about a second. */
const WINDOWS_MAX = 3_000_000;

/** The finest step that gives a line no more points than it has room for, at a bearable cost. */
export function stepFor(spanMs: number, gpus: number): number {
  const seconds = spanMs / 1000;
  const fits = (step: number): boolean =>
    seconds / step <= POINTS_PER_LINE && (gpus * seconds) / grainOf(step) <= WINDOWS_MAX;
  return STEPS_S.find(fits) ?? 86_400;
}

/** What a step is made of: readings, which come every few seconds, or windows of a table. */
function grainOf(step: number): number {
  return step < 60 ? 10 : step < 3600 ? 60 : 3600;
}

export function stepName(seconds: number): string {
  if (seconds % 86_400 === 0) return `${seconds / 86_400}d`;
  if (seconds % 3600 === 0) return `${seconds / 3600}h`;
  return seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`;
}
