/** Who held a GPU, as intervals: the pod lane under the charts. */

import type { ColumnSeries } from "../api/types";
import { keyOf } from "../api/gpu";
import type { Span } from "../time/range";

export interface Hold {
  readonly key: string;
  readonly namespace: string;
  readonly pod: string;
  readonly start: number;
  readonly end: number;
}

/** Intervals in which readings of a GPU named a pod. A silence longer than `gapMs` ends one. */
export function holdsOf(series: readonly ColumnSeries[], gapMs: number): Hold[] {
  const held = series.filter((each) => each.pod !== "");
  const holds = held.flatMap((each) => runs(each.time, gapMs).map((run) => ({ ...run, of: each })));
  const found = holds.map(({ start, end, of }) => {
    const { namespace, pod } = of;
    return { key: keyOf(of.uuid, of.mig), namespace, pod, start, end };
  });
  return bridged(
    found.sort((one, other) => one.start - other.start),
    gapMs,
  );
}

function runs(time: readonly number[], gapMs: number): Span[] {
  const found: { start: number; end: number }[] = [];
  for (const at of time) {
    const last = found.at(-1);
    if (last && at - last.end <= gapMs) last.end = at;
    else found.push({ start: at, end: at });
  }
  return found;
}

/** Containers of one pod hold together: what touches or overlaps is one interval. */
function bridged(holds: readonly Hold[], gapMs: number): Hold[] {
  const open = new Map<string, { -readonly [field in keyof Hold]: Hold[field] }>();
  const found: Hold[] = [];
  for (const hold of holds) {
    const id = [hold.key, hold.namespace, hold.pod].join("\u0000");
    const last = open.get(id);
    if (last && hold.start - last.end <= gapMs) {
      last.end = Math.max(last.end, hold.end);
      continue;
    }
    const begun = { ...hold };
    open.set(id, begun);
    found.push(begun);
  }
  return found;
}

export interface Placement {
  readonly left: number;
  readonly width: number;
}

/** Where an interval stands in a span, in percent of its width; null if it is outside. */
export function placeIn(span: Span, hold: Span, stepMs: number): Placement | null {
  const start = Math.max(span.start, hold.start);
  const end = Math.min(span.end, hold.end + stepMs);
  if (end <= start) return null;
  const length = span.end - span.start;
  return { left: (100 * (start - span.start)) / length, width: (100 * (end - start)) / length };
}

/** A number from a text, always the same: it picks the colour of a pod. */
export function hashOf(text: string): number {
  let hash = 7;
  for (const letter of text) hash = (Math.imul(hash, 31) + (letter.codePointAt(0) ?? 0)) | 0;
  return hash >>> 0;
}
