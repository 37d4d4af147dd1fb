/**
 * How the fleet went since the page was opened, kept by the page itself: for fleets with more GPUs
 * than one answer has room for.
 */

import { keyOf } from "../api/gpu";
import type { Gpu } from "../api/types";
import type { Grouping } from "../state/view";
import { groupOf, largest, type Gathered, type Gathering, type How } from "./aggregate";
import { isFresh, type Latest } from "./latest";

/** Half an hour at a look every five seconds. */
const LOOKS_MAX = 360;
const GROUPINGS: readonly Grouping[] = ["fleet", "host", "namespace"];

interface Kept {
  readonly label: string;
  readonly time: number[];
  readonly value: number[];
}

export class FleetHistory {
  private readonly kept = new Map<string, Map<string, Kept>>();

  /** Notes the sum or mean of each group as it is now. */
  look(gpus: readonly Gpu[], metric: string, how: How, samples: Latest, now: number): void {
    const values = samples.of(metric);
    const fresh = gpus.flatMap((gpu) => {
      const sample = values.get(keyOf(gpu.uuid, gpu.mig));
      return isFresh(sample, now) && sample.value !== null ? [{ gpu, value: sample.value }] : [];
    });
    for (const by of GROUPINGS) this.note(`${metric} ${by}`, tally(fresh, by), how, now);
  }

  lines(metric: string, by: Grouping): Gathering {
    const kept = [...(this.kept.get(`${metric} ${by}`)?.values() ?? [])];
    const lines: Gathered[] = kept.map((each) => ({ ...each, low: [], high: [] }));
    return { lines: largest(lines), groups: lines.length };
  }

  private note(key: string, tallies: ReadonlyMap<string, Tally>, how: How, now: number): void {
    const lines = this.kept.get(key) ?? new Map<string, Kept>();
    this.kept.set(key, lines);
    for (const [label, { sum, count }] of tallies) {
      const line = lines.get(label) ?? { label, time: [], value: [] };
      lines.set(label, line);
      line.time.push(now);
      line.value.push(how === "sum" ? sum : sum / count);
      if (line.time.length > LOOKS_MAX) [line.time, line.value].forEach((column) => column.shift());
    }
  }
}

interface Tally {
  sum: number;
  count: number;
}

function tally(rows: readonly { gpu: Gpu; value: number }[], by: Grouping): Map<string, Tally> {
  const found = new Map<string, Tally>();
  for (const { gpu, value } of rows) {
    const label = groupOf(gpu, by);
    const known = found.get(label) ?? { sum: 0, count: 0 };
    known.sum += value;
    known.count += 1;
    found.set(label, known);
  }
  return found;
}
