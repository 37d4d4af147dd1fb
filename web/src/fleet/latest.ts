/** The newest value of each GPU's metrics: filled by asking once, kept new by the live stream. */

import { keyOf } from "../api/gpu";
import type { LatestColumns, LiveRows } from "../api/types";

export interface Sample {
  readonly value: number | null;
  readonly at: number;
}

export type Listener = (metric: string, key: string) => void;

export class Latest {
  private readonly byMetric = new Map<string, Map<string, Sample>>();
  private readonly listeners = new Set<Listener>();
  /** When the newest reading of all was taken. */
  newest = 0;

  /** The samples of a metric: a map that goes on being filled. */
  of(metric: string): ReadonlyMap<string, Sample> {
    return this.samplesOf(metric);
  }

  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Keeps a sample if none is newer. A time-sliced GPU says the same once for each pod. */
  take(metric: string, key: string, value: number | null, at: number): void {
    const samples = this.samplesOf(metric);
    const before = samples.get(key);
    if (before && before.at >= at) return;
    samples.set(key, { value, at });
    if (at > this.newest) this.newest = at;
    for (const listener of this.listeners) listener(metric, key);
  }

  /** Rows of one link or one XID are parts of a GPU and say nothing of the whole. */
  takeColumns({ data }: LatestColumns): void {
    data.uuid.forEach((uuid, row) => {
      if (data.instance[row]) return;
      const key = keyOf(uuid, data.mig[row] ?? "");
      this.take(data.metric[row] ?? "", key, data.value[row] ?? null, data.timestamp[row] ?? 0);
    });
  }

  takeRows(rows: LiveRows): void {
    rows.uuid.forEach((uuid, row) => {
      if (rows.instance[row]) return;
      const key = keyOf(uuid, rows.mig[row] ?? "");
      this.take(rows.metric[row] ?? "", key, rows.value[row] ?? null, rows.timestamp[row] ?? 0);
    });
  }

  private samplesOf(metric: string): Map<string, Sample> {
    const known = this.byMetric.get(metric);
    if (known) return known;
    const made = new Map<string, Sample>();
    this.byMetric.set(metric, made);
    return made;
  }
}

/** Older than this, a value is no longer what the GPU does. The gateway's own bound for states. */
export const STALE_AFTER_MS = 120_000;

export function isFresh(sample: Sample | undefined, now: number): sample is Sample {
  return sample !== undefined && now - sample.at <= STALE_AFTER_MS;
}
