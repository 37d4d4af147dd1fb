/** The pod lane of a host or a GPU, with the readings that name the pods. */

import { useMemo } from "preact/hooks";
import type { Query } from "../api/client";
import { gpuName, keyOf } from "../api/gpu";
import type { Gpu } from "../api/types";
import { span } from "../state/clock";
import { useColumns } from "./data";
import { holdsOf } from "./lane";
import { PodLane } from "./PodLane";
import { gapOf, stepOf } from "./series";

interface HoldPanelProps {
  readonly path: string;
  readonly query: Query;
  readonly gpus: readonly Gpu[];
  /** A metric that every GPU has: its readings tell who held it. */
  readonly metric: string;
}

// As with allocation: a silence of up to two minutes does not end a hold.
const GAP_MIN_MS = 120_000;

export function HoldPanel({ path, query, gpus, metric }: HoldPanelProps) {
  const { columns } = useColumns(path, { ...query, metric, max_points: 900 });
  const stepMs = stepOf(columns?.resolution ?? "");
  const holds = useMemo(() => {
    const series = columns?.series ?? [];
    const drawn = series.map(({ time, value }) => ({ time, value, low: [], high: [] }));
    return holdsOf(series, Math.max(GAP_MIN_MS, gapOf(drawn, stepMs)));
  }, [columns]);
  const rows = gpus.map((gpu) => ({ key: keyOf(gpu.uuid, gpu.mig), label: gpuName(gpu) }));
  return (
    <section class="panel" aria-labelledby="pods">
      <header class="panel-head">
        <h2 id="pods">Pods</h2>
        {columns && holds.length === 0 && <span class="muted">no pod was named in this time</span>}
      </header>
      {holds.length > 0 && (
        <PodLane {...{ rows, holds }} span={span.value} stepMs={stepMs ?? 1000} />
      )}
    </section>
  );
}
