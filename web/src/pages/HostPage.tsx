/** One host: its GPUs side by side, now and over time. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { exactly, getAll } from "../api/client";
import { getLatest } from "../api/latest";
import { inPlace } from "../api/gpu";
import type { Gpu, LiveRows } from "../api/types";
import { LiveFeed } from "../chart/data";
import { HoldPanel } from "../chart/HoldPanel";
import { MetricCharts } from "../chart/MetricCharts";
import { Fact } from "../components/Identity";
import { Trail } from "../components/Trail";
import { GpuTable } from "../components/GpuTable";
import { Failure, Loading, Note } from "../components/Notes";
import { useCatalogue } from "../fleet/data";
import { Latest } from "../fleet/latest";
import { newestSeen, totalsOf } from "../fleet/totals";
import { followsNow, now } from "../state/clock";
import { sawReading, useLive, useNewest } from "../state/live";
import { linkTo } from "../state/location";
import { useResource } from "../state/resource";
import { FLEET } from "../state/route";
import { NO_FILTERS } from "../state/view";
import { formatValue } from "../units";
import { countBy } from "./counting";

const EVERY_MS = 10_000;

interface HostProps {
  readonly cluster: string;
  readonly host: string;
}

export function HostPage({ cluster, host }: HostProps) {
  const scope = `${cluster}\u0000${host}`;
  const found = useResource({
    scope,
    key: scope,
    load: (signal) => getAll<Gpu>("/api/v1/gpus", { ...only(cluster, host), limit: 1000 }, signal),
    every: EVERY_MS,
  });
  if (!found.data && found.error) return <Failure error={found.error} retry={found.reload} />;
  if (!found.data) return <Loading what="the host" />;
  if (found.data.length === 0) return <UnknownHost cluster={cluster} host={host} />;
  return <HostPanels {...{ cluster, host }} gpus={[...found.data].sort(inPlace)} />;
}

/** The filters that leave this host alone. */
function only(cluster: string, host: string) {
  return { cluster: exactly(cluster), hostname: exactly(host) };
}

function HostPanels({ cluster, host, gpus }: HostProps & { gpus: readonly Gpu[] }) {
  const query = only(cluster, host);
  const catalogue = useCatalogue().data ?? [];
  const { samples, feed, series } = useHostValues(query);
  const newest = newestSeen(gpus);
  useNewest(newest);
  const totals = totalsOf(gpus, samples.of("power"), now.value);
  const models = [...new Set(gpus.map((gpu) => gpu.model).filter(Boolean))];
  return (
    <>
      <section class="panel identity" aria-labelledby="identity">
        <Trail
          steps={[
            {
              title: cluster,
              href: linkTo(FLEET, { filters: { ...NO_FILTERS, cluster: [cluster] } }),
            },
          ]}
        />
        <h1 id="identity">{host}</h1>
        <dl class="facts">
          <Fact name="Cluster" value={cluster} />
          <Fact name="GPUs" value={`${totals.gpus} × ${models.join(", ") || "unknown model"}`} />
          <Fact name="Busy" value={`${totals.states.active} of ${totals.gpus}`} />
          <Fact name="Power" value={formatValue(totals.watts, "W")} />
        </dl>
        <GpuTable gpus={gpus} samples={samples} />
      </section>
      <HoldPanel path="/api/v1/telemetry" query={query} gpus={gpus} metric="gpu_util" />
      <MetricCharts
        path="/api/v1/telemetry"
        {...{ query, series, catalogue, feed, newest }}
        colourByGpu
      />
    </>
  );
}

/** The newest values of all metrics of a host, live; and how many series each metric has. */
function useHostValues(query: { cluster: string; hostname: string }) {
  const scope = `${query.cluster}\u0000${query.hostname}`;
  const asked = useResource({
    scope,
    key: scope,
    load: (signal) => getLatest(query, signal),
    every: EVERY_MS,
  });
  const [feed] = useState(() => new LiveFeed());
  const samples = useMemo(() => new Latest(), [scope]);
  useEffect(() => {
    if (asked.data) samples.takeColumns(asked.data);
  }, [asked.data, samples]);
  const rows = (each: LiveRows): void => {
    samples.takeRows(each);
    sawReading(samples.newest);
    feed.give(each);
  };
  useLive({ query, wanted: followsNow.value, rows, gap: asked.reload });
  const series = useMemo(
    () => countBy(asked.data?.data.metric ?? [], (metric) => metric),
    [asked.data],
  );
  return { samples, feed, series };
}

function UnknownHost({ cluster, host }: HostProps) {
  return (
    <Note title="No such host">
      <p>
        No reading of <code>{host}</code> in the cluster <code>{cluster}</code> has been stored.
      </p>
      <a class="button primary" href={linkTo(FLEET)}>
        All hosts
      </a>
    </Note>
  );
}
