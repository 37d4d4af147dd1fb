/** How readings get here: the queue, the collector, what was refused, and the tables. */

import { getJson } from "../api/client";
import type { Pipeline, Queue } from "../api/types";
import { Failure, Loading, Note } from "../components/Notes";
import { CollectorPanel } from "../pipeline/CollectorPanel";
import { LagPanel } from "../pipeline/LagPanel";
import { QuarantinePanel } from "../pipeline/QuarantinePanel";
import { TablesPanel } from "../pipeline/TablesPanel";
import { useNewest } from "../state/live";
import { useResource } from "../state/resource";

const EVERY_MS = 5_000;

export function PipelinePage() {
  const pipeline = useResource({
    key: "pipeline",
    load: (signal) => getJson<Pipeline>("/api/v1/pipeline", {}, signal),
    every: EVERY_MS,
  });
  const queue = useResource({
    key: "queue",
    load: (signal) => getJson<Queue>("/api/v1/queue", {}, signal),
    every: EVERY_MS,
  });
  const stored = pipeline.data?.tables.find((table) => table.name === "readings")?.newest;
  useNewest(stored ? Date.parse(stored) : null);
  if (!pipeline.data && pipeline.error) {
    return <Failure error={pipeline.error} retry={pipeline.reload} />;
  }
  if (!pipeline.data) return <Loading what="the pipeline" />;
  return (
    <>
      {pipeline.error && <Failure error={pipeline.error} retry={pipeline.reload} />}
      <CollectorPanel collector={pipeline.data.collector} history={pipeline.data.history} />
      <div class="columns-two">
        {queue.data ? (
          <LagPanel queue={queue.data} collector={pipeline.data.collector} />
        ) : (
          <NoQueue said={queue.error?.message} />
        )}
        <QuarantinePanel />
      </div>
      <TablesPanel tables={pipeline.data.tables} />
    </>
  );
}

function NoQueue({ said }: { said: string | undefined }) {
  return (
    <section class="panel">
      <Note title="The queue is not shown">{said ?? "It is being asked."}</Note>
    </section>
  );
}
