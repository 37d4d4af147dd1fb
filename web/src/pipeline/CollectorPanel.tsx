/** What the collector does: readings stored a second, how long a batch takes, what waits. */

import type { Collector, PipelineSample } from "../api/types";
import { Chart } from "../chart/Chart";
import { Fact } from "../components/Identity";
import { Note } from "../components/Notes";
import { age } from "../time/format";
import { formatCount, formatValue } from "../units";

interface CollectorPanelProps {
  readonly collector: Collector;
  readonly history: readonly PipelineSample[];
}

export function CollectorPanel({ collector, history }: CollectorPanelProps) {
  return (
    <section class="panel" aria-labelledby="collector">
      <header class="panel-head">
        <h2 id="collector">Collector</h2>
        <span class={`badge ${isWell(collector) ? "state-active" : "state-idle-held"}`}>
          {collector.reachable ? (collector.state ?? "running") : "no answer"}
        </span>
      </header>
      {collector.reachable ? <Facts collector={collector} /> : <Away collector={collector} />}
      {history.some((sample) => sample.readings_per_s !== null) && <History history={history} />}
    </section>
  );
}

function isWell(collector: Collector): boolean {
  return collector.reachable && ["running", "standby"].includes(collector.state ?? "running");
}

function Away({ collector }: { collector: Collector }) {
  return (
    <Note title={`No collector answers at ${collector.url}`}>
      <p>
        {collector.detail} Readings wait in the queue until one runs: <code>nexus collector</code>,
        or tell the gateway where it is with <code>--collector-url</code>.
      </p>
    </Note>
  );
}

function Facts({ collector }: { collector: Collector }) {
  const { readings_per_s, batch_ms, lag, seconds_since_commit } = collector;
  return (
    <>
      {collector.problem && <p class="problem">{collector.problem}</p>}
      <dl class="facts large">
        <Fact name="Readings stored" value={`${count(readings_per_s)} /s`} />
        <Fact name="Last batch" value={formatMs(batch_ms)} />
        <Fact name="Messages waiting" value={count(lag)} />
        <Fact name="Last commit" value={since(seconds_since_commit)} />
        <Fact name="Readings in all" value={count(collector.readings)} />
        <Fact name="Refused" value={count(collector.quarantined)} />
        <Fact name="Duplicates" value={count(collector.duplicates)} />
        <Fact name="Failed batches" value={count(collector.failures)} />
      </dl>
    </>
  );
}

const CHARTS = [
  { title: "Readings stored a second", field: "readings_per_s", unit: "count" },
  { title: "Batch time", field: "batch_ms", unit: "ms" },
  { title: "Messages waiting", field: "lag", unit: "count" },
] as const;

function History({ history }: { history: readonly PipelineSample[] }) {
  const time = history.map((sample) => sample.time);
  const span = { start: time[0] ?? 0, end: time.at(-1) ?? 1 };
  return (
    <div class="charts three">
      {CHARTS.map(({ title, field, unit }, colour) => {
        const value = history.map((sample) => sample[field]);
        const lines = [{ label: title, colour, time, value, low: [], high: [] }];
        return (
          <Chart
            key={field}
            {...{ title, unit, lines, span }}
            group="pipeline"
            stepMs={null}
            version={0}
          />
        );
      })}
    </div>
  );
}

function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : formatCount(value);
}

function formatMs(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : formatValue(value, "ms");
}

function since(seconds: number | null | undefined): string {
  return seconds === null || seconds === undefined ? "" : `${age(seconds * 1000)} ago`;
}
