/** The whole fleet: totals, the heat map, and how load and power went. */

import { useMemo } from "preact/hooks";
import type { Gpu, Metric } from "../api/types";
import { FilterBar } from "../components/FilterBar";
import { Failure, Loading, NoGpus, Note } from "../components/Notes";
import { Totals } from "../components/Totals";
import { useCatalogue, useGpus, useLatest, useMeans } from "../fleet/data";
import { FleetCharts } from "../fleet/FleetCharts";
import { HostTable } from "../fleet/HostTable";
import { MetricPicker } from "../fleet/MetricPicker";
import { newestSeen, totalsOf } from "../fleet/totals";
import { HeatMap } from "../heatmap/HeatMap";
import { STATE_PICK } from "../heatmap/picture";
import { titleOf } from "../metrics";
import { followsNow, now, span } from "../state/clock";
import { useNewest } from "../state/live";
import { view } from "../state/location";
import { matches } from "../state/view";
import { describeRange } from "../time/format";

const LOAD = "gpu_util";
const POWER = "power";

export function FleetPage() {
  const found = useGpus();
  const all = found.data ?? [];
  const { filters } = view.value;
  const gpus = useMemo(() => all.filter((gpu) => matches(gpu, filters)), [found.data, filters]);
  const newest = useMemo(() => newestSeen(all), [found.data]);
  useNewest(newest);

  if (!found.data && found.error) return <Failure error={found.error} retry={found.reload} />;
  if (!found.data) return <Loading what="the fleet" />;
  return (
    <>
      {found.error && <Failure error={found.error} retry={found.reload} />}
      <FilterBar gpus={all} />
      {all.length === 0 ? <NoGpus /> : <FleetPanels gpus={gpus} newest={newest} />}
    </>
  );
}

function FleetPanels({ gpus, newest }: { gpus: readonly Gpu[]; newest: number | null }) {
  const catalogue = useCatalogue().data ?? [];
  const metric = pickedMetric(catalogue);
  const wanted = [...new Set([metric?.name ?? LOAD, LOAD, POWER])];
  const live = useLatest(wanted, gpus.length, followsNow.value);
  const past = useMeans(metric?.name ?? "", followsNow.value || !metric ? null : span.value);
  const samples = followsNow.value ? live : past;

  if (gpus.length === 0) return <Note title="No GPU fits these filters">Clear one of them.</Note>;
  return (
    <>
      <Totals totals={totalsOf(gpus, live.of(POWER), now.value)} />
      <section class="panel" aria-labelledby="heat-title">
        <header class="panel-head">
          <h2 id="heat-title">{heading(metric)}</h2>
          <MetricPicker catalogue={catalogue} />
        </header>
        <HeatMap gpus={gpus} metric={metric} samples={samples} live={followsNow.value} />
      </section>
      <FleetCharts gpus={gpus} newest={newest} />
      <HostTable gpus={gpus} samples={live} />
    </>
  );
}

/** The metric that the heat map shows; null for states, which there are only of now. */
function pickedMetric(catalogue: readonly Metric[]): Metric | null {
  const picked = view.value.metric;
  if (picked === STATE_PICK && followsNow.value) return null;
  const name = picked === STATE_PICK ? "gpu_util" : picked;
  return catalogue.find((each) => each.name === name) ?? unlisted(name);
}

function unlisted(name: string): Metric {
  const unit = name === "gpu_util" ? "ratio" : "";
  return { name, unit, kind: "gauge", description: "", collected: false };
}

function heading(metric: Metric | null): string {
  if (!metric) return "State of every GPU, now";
  if (followsNow.value) return `${titleOf(metric.name)} of every GPU, now`;
  return `${titleOf(metric.name)} of every GPU, mean of ${describeRange(view.value.range)}`;
}
