/** What the fleet page shows, as hooks: who is there, and the newest value of some metrics. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { getAll } from "../api/client";
import { getLatest } from "../api/latest";
import { keyOf } from "../api/gpu";
import type { Gpu, LiveRows, Metric, SummaryRow } from "../api/types";
import { useLive, sawReading } from "../state/live";
import { useResource, type Resource } from "../state/resource";
import { asQuery, type Span } from "../time/range";
import { Latest } from "./latest";

const PAGE = 10_000;
const GPUS_EVERY_MS = 10_000;
const CATALOGUE_EVERY_MS = 60_000;
const POLL_EVERY_MS = 5_000;
// Of so many the eye sees no single one change; the stream may be half as wide.
const MANY_GPUS = 4_000;

export function useCatalogue(): Resource<Metric[]> {
  return useResource({
    key: "metrics",
    load: (signal) => getAll<Metric>("/api/v1/metrics", {}, signal),
    every: CATALOGUE_EVERY_MS,
  });
}

export function useGpus(): Resource<Gpu[]> {
  return useResource({
    key: "gpus",
    load: (signal) => getAll<Gpu>("/api/v1/gpus", { limit: PAGE }, signal),
    every: GPUS_EVERY_MS,
  });
}

/** The newest values of metrics, kept new by the live stream, or by asking where there is none. */
export function useLatest(metrics: readonly string[], gpus: number, live: boolean): Latest {
  const [samples] = useState(() => new Latest());
  const metric = metrics.join(",");
  const take = (rows: LiveRows): void => {
    samples.takeRows(rows);
    sawReading(samples.newest);
  };
  const gap = (): void => asked.reload();
  const interval = gpus > MANY_GPUS ? "2s" : "1s";
  const state = useLive({ query: { metric, interval }, wanted: live, rows: take, gap });
  const asked = useResource({
    key: metric,
    load: (signal) => getLatest({ metric }, signal),
    every: live && state !== "away" ? 0 : POLL_EVERY_MS,
  });
  useEffect(() => {
    if (!asked.data) return;
    samples.takeColumns(asked.data);
    sawReading(samples.newest);
  }, [asked.data]);
  return samples;
}

/** Each GPU's mean of a metric over a span that is past; null while it is not asked for. */
export function useMeans(metric: string, span: Span | null): Latest {
  const found = useResource({
    key: span ? `${metric} ${span.start} ${span.end}` : "",
    load: async (signal) => (span ? await means(metric, span, signal) : []),
    every: 0,
  });
  return useMemo(() => {
    const samples = new Latest();
    for (const row of found.data ?? []) {
      samples.take(metric, keyOf(row.uuid ?? "", ""), row.mean, span?.end ?? 0);
    }
    return samples;
  }, [found.data]);
}

function means(metric: string, span: Span, signal: AbortSignal): Promise<SummaryRow[]> {
  const query = { metric, by: "uuid,metric", limit: PAGE, ...asQuery(span) };
  return getAll<SummaryRow>("/api/v1/telemetry/summary", query, signal);
}
