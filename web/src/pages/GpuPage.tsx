/** One GPU: who it is, what it says now, and every metric over time. */

import { useMemo, useState } from "preact/hooks";
import { getJson } from "../api/client";
import { fullName, inPlace } from "../api/gpu";
import type { Gpu, GpuDetail, List, LiveRows } from "../api/types";
import { LiveFeed } from "../chart/data";
import { HoldPanel } from "../chart/HoldPanel";
import { MetricCharts } from "../chart/MetricCharts";
import { Identity } from "../components/Identity";
import { LatestValues } from "../components/LatestValues";
import { Failure, Loading, Note } from "../components/Notes";
import { useCatalogue } from "../fleet/data";
import { followsNow } from "../state/clock";
import { sawReading, useLive, useNewest } from "../state/live";
import { linkTo } from "../state/location";
import { useResource } from "../state/resource";
import { FLEET } from "../state/route";
import { countBy } from "./counting";

const DETAIL_EVERY_MS = 10_000;

export function GpuPage({ uuid }: { uuid: string }) {
  const path = `/api/v1/gpus/${encodeURIComponent(uuid)}`;
  const found = useResource({
    scope: path,
    key: path,
    load: (signal) => getJson<GpuDetail>(path, {}, signal),
    every: DETAIL_EVERY_MS,
  });
  if (found.error?.status === 404) return <UnknownGpu uuid={uuid} />;
  if (!found.data && found.error) return <Failure error={found.error} retry={found.reload} />;
  if (!found.data) return <Loading what="the GPU" />;
  return <GpuPanels gpu={found.data} path={path} reload={found.reload} />;
}

function GpuPanels({ gpu, path, reload }: { gpu: GpuDetail; path: string; reload: () => void }) {
  const catalogue = useCatalogue().data ?? [];
  const [feed] = useState(() => new LiveFeed());
  const rows = (each: LiveRows): void => {
    feed.give(each);
    sawReading(Math.max(...each.timestamp));
  };
  useLive({ query: { uuid: gpu.uuid }, wanted: followsNow.value, rows, gap: reload });
  const series = useMemo(() => countBy(gpu.latest, (reading) => reading.metric), [gpu]);
  const newest = Date.parse(gpu.last_seen);
  useNewest(newest);
  const telemetry = `${path}/telemetry`;

  return (
    <>
      <Identity gpu={gpu} title={fullName(gpu)} />
      <Siblings gpu={gpu} />
      <div class="with-side">
        <div class="main-column">
          <HoldPanel
            path={telemetry}
            query={{}}
            gpus={[gpu]}
            metric={series.has("gpu_util") ? "gpu_util" : firstOf(series)}
          />
          <MetricCharts
            path={telemetry}
            query={{}}
            {...{ series, catalogue, feed, newest }}
            colourByGpu={false}
          />
        </div>
        <LatestValues latest={gpu.latest} feed={feed} catalogue={catalogue} />
      </div>
    </>
  );
}

function firstOf(series: ReadonlyMap<string, number>): string {
  return series.keys().next().value ?? "gpu_util";
}

/** The other GPUs of the host, a click away. */
function Siblings({ gpu }: { gpu: Gpu }) {
  const found = useResource({
    key: `${gpu.cluster} ${gpu.hostname}`,
    load: (signal) =>
      getJson<List<Gpu>>(
        "/api/v1/gpus",
        { cluster: gpu.cluster, hostname: gpu.hostname, limit: 100 },
        signal,
      ),
    every: DETAIL_EVERY_MS,
  });
  const others = [...(found.data?.data ?? [])].sort(inPlace);
  if (others.length < 2) return null;
  return (
    <nav class="siblings" aria-label={`GPUs of ${gpu.hostname}`}>
      {others.map((each) => (
        <a
          key={`${each.uuid} ${each.mig}`}
          href={linkTo({ page: "gpu", uuid: each.uuid })}
          class="sibling"
          aria-current={each.uuid === gpu.uuid ? "page" : undefined}
          title={each.state}
        >
          <span class={`swatch state-${each.state}`} /> GPU {each.gpu}
          {each.mig && ` · MIG ${each.mig}`}
        </a>
      ))}
    </nav>
  );
}

function UnknownGpu({ uuid }: { uuid: string }) {
  return (
    <Note title="No such GPU">
      <p>
        No reading of <code>{uuid}</code> has been stored. A GPU is known by its uuid, or by a
        beginning of it that no other has.
      </p>
      <a class="button primary" href={linkTo(FLEET)}>
        All GPUs
      </a>
    </Note>
  );
}
