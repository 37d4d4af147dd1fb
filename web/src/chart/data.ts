/**
 * Series for charts, as a hook: asked for once, asked again as often as their step makes sense, and
 * grown by the live stream between where they are readings.
 */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { getJson, urlOf, type ApiError, type Query } from "../api/client";
import type { Columns, LiveRows } from "../api/types";
import { followsNow, now } from "../state/clock";
import { view } from "../state/location";
import { useResource } from "../state/resource";
import { asQuery, resolve, writeRange } from "../time/range";
import { append, carryOver, linesOf, stepOf, trim, type Line } from "./series";

/** Hands each batch of live rows to whoever listens. */
export class LiveFeed {
  private readonly listeners = new Set<(rows: LiveRows) => void>();

  listen(listener: (rows: LiveRows) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  give(rows: LiveRows): void {
    for (const listener of this.listeners) listener(rows);
  }
}

const EVERY_MIN_MS = 10_000;
const EVERY_MAX_MS = 60_000;

export interface Asked<T> {
  readonly columns: T | null;
  readonly error: ApiError | null;
  readonly reload: () => void;
}

/** The columns of a query over the page's range. */
export function useColumns<T extends { resolution: string } = Columns>(
  path: string,
  query: Query,
): Asked<T> {
  const params = new URLSearchParams();
  writeRange(view.value.range, params);
  const step = useRef(0);
  const found = useResource({
    scope: path,
    key: `${urlOf(path, query)} ${params}`,
    load: (signal) => {
      const span = resolve(view.value.range, now.value);
      // Where not all of it fits one answer, the newest is what must be there.
      const how = { layout: "columns", order: "desc" };
      return getJson<T>(path, { ...query, ...asQuery(span), ...how }, signal);
    },
    every: followsNow.value ? Math.min(EVERY_MAX_MS, Math.max(EVERY_MIN_MS, step.current)) : 0,
  });
  const { data: columns, error, reload } = found;
  step.current = stepOf(columns?.resolution ?? "") ?? 0;
  return { columns, error, reload };
}

export interface Lines {
  readonly lines: ReadonlyMap<string, Line>;
  readonly stepMs: number | null;
  /** Grows when points were added to lines that are there. */
  readonly version: number;
}

export function useLines(columns: Columns | null, feed: LiveFeed): Lines {
  const stepMs = stepOf(columns?.resolution ?? "");
  const [version, setVersion] = useState(0);
  const before = useRef<ReadonlyMap<string, Line>>(new Map());
  const lines = useMemo(() => {
    const fresh = linesOf(columns?.series ?? []);
    if (stepMs === null && followsNow.peek()) carryOver(before.current, fresh);
    before.current = fresh;
    return fresh;
  }, [columns]);

  useEffect(() => {
    if (stepMs !== null || !followsNow.value) return;
    return feed.listen((rows) => {
      if (!append(lines, rows)) return;
      const { start } = resolve(view.value.range, now.value);
      for (const line of lines.values()) trim(line, start - EVERY_MAX_MS);
      setVersion((count) => count + 1);
    });
  }, [lines, feed, stepMs, followsNow.value]);
  return { lines, stepMs, version };
}
