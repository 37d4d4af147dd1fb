/** How the fleet's load and power went, in all, by host or by namespace. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Query } from "../api/client";
import { keyOf } from "../api/gpu";
import type { ColumnSeries, Gpu } from "../api/types";
import { Chart } from "../chart/Chart";
import { useColumns } from "../chart/data";
import { EmptyRange, Failure, Loading, Note } from "../components/Notes";
import { followsNow, now, paused, span } from "../state/clock";
import { changeView, view } from "../state/location";
import type { Filters, Grouping } from "../state/view";
import { lengthOf, type Span } from "../time/range";
import { formatCount } from "../units";
import { ASKED_GPUS_MAX, gather, stepFor, stepName, type Gathering, type How } from "./aggregate";
import { FleetHistory } from "./history";
import type { Latest } from "./latest";

const GROUPINGS: readonly (readonly [Grouping, string])[] = [
  ["fleet", "Fleet"],
  ["host", "By host"],
  ["namespace", "By namespace"],
];

const CHARTS: readonly FleetLine[] = [
  { metric: "gpu_util", unit: "ratio", title: "Mean GPU utilisation", how: "mean" },
  { metric: "power", unit: "W", title: "Total power", how: "sum" },
];

interface FleetLine {
  readonly metric: string;
  readonly unit: string;
  readonly title: string;
  readonly how: How;
}

interface FleetChartsProps {
  readonly gpus: readonly Gpu[];
  readonly newest: number | null;
  readonly samples: Latest;
}

export function FleetCharts({ gpus, newest, samples }: FleetChartsProps) {
  return (
    <section class="panel" aria-labelledby="fleet-charts">
      <header class="panel-head">
        <h2 id="fleet-charts">Over time</h2>
        <div class="segments" role="group" aria-label="Group lines">
          {GROUPINGS.map(([by, title]) => (
            <button
              key={by}
              type="button"
              class="segment"
              aria-pressed={view.value.by === by}
              onClick={() => changeView({ by })}
            >
              {title}
            </button>
          ))}
        </div>
      </header>
      {gpus.length <= ASKED_GPUS_MAX ? (
        <AskedCharts gpus={gpus} newest={newest} />
      ) : (
        <WatchedCharts key={JSON.stringify(view.value.filters)} gpus={gpus} samples={samples} />
      )}
    </section>
  );
}

/** What the tables say of the chosen time. */
function AskedCharts({ gpus, newest }: { gpus: readonly Gpu[]; newest: number | null }) {
  const { filters, range } = view.value;
  const stepS = stepFor(lengthOf(range), gpus.length * CHARTS.length);
  const metric = CHARTS.map((chart) => chart.metric).join(",");
  const query = { metric, resolution: stepName(stepS), ...narrowing(filters) };
  const { columns, error, reload } = useColumns("/api/v1/telemetry", query);
  const series = useMemo(() => {
    const wanted = new Set(gpus.map((gpu) => keyOf(gpu.uuid, gpu.mig)));
    return (columns?.series ?? []).filter((each) => wanted.has(keyOf(each.uuid, each.mig)));
  }, [columns, gpus]);

  if (!columns && error) return <Failure error={error} retry={reload} />;
  if (!columns) return <Loading what="the charts" />;
  if (series.length === 0) return <EmptyRange newest={newest} />;
  return (
    <>
      <div class="charts two">
        {CHARTS.map((chart) => (
          <AskedChart key={chart.metric} chart={chart} series={series} stepMs={stepS * 1000} />
        ))}
      </div>
      {columns.truncated && <p class="field-note">Not all of it fits: narrow the filters.</p>}
    </>
  );
}

interface AskedChartProps {
  readonly chart: FleetLine;
  readonly series: readonly ColumnSeries[];
  readonly stepMs: number;
}

function AskedChart({ chart, series, stepMs }: AskedChartProps) {
  const { by } = view.value;
  const gathering = useMemo(() => {
    const own = series.filter((each) => each.metric === chart.metric);
    return gather(own, by, chart.how, now.peek() - stepMs);
  }, [series, by, chart, stepMs]);
  return <FleetChart {...{ chart, gathering, stepMs }} span={span.value} />;
}

const LOOK_MS = 5_000;

/** What the page has seen itself, of more GPUs than it can ask about. */
function WatchedCharts({ gpus, samples }: { gpus: readonly Gpu[]; samples: Latest }) {
  const [history] = useState(() => new FleetHistory());
  const [seen, setSeen] = useState<Span | null>(null);
  const newest = useRef(gpus);
  newest.current = gpus;
  useEffect(() => {
    const look = (): void => {
      if (paused.value) return;
      const at = Date.now();
      for (const { metric, how } of CHARTS) history.look(newest.current, metric, how, samples, at);
      setSeen((before) => ({ start: before?.start ?? at, end: at }));
    };
    const timer = setInterval(look, LOOK_MS);
    return () => clearInterval(timer);
  }, [history, samples]);

  const most = formatCount(ASKED_GPUS_MAX);
  if (!followsNow.value) {
    return (
      <Note title={`A past time can be shown of up to ${most} GPUs`}>Filter some of them.</Note>
    );
  }
  if (!seen || seen.end === seen.start) return <Loading what="what comes" />;
  return (
    <>
      <div class="charts two">
        {CHARTS.map((chart) => (
          <FleetChart
            key={chart.metric}
            chart={chart}
            gathering={history.lines(chart.metric, view.value.by)}
            stepMs={LOOK_MS}
            span={seen}
          />
        ))}
      </div>
      <p class="field-note">
        Since this page was opened. Filter to at most {most} GPUs to see the time before.
      </p>
    </>
  );
}

interface FleetChartProps {
  readonly chart: FleetLine;
  readonly gathering: Gathering;
  readonly stepMs: number;
  readonly span: Span;
}

function FleetChart({ chart, gathering: { lines, groups }, stepMs, span }: FleetChartProps) {
  const drawn = lines.map((line, colour) => ({ ...line, colour }));
  return (
    <div>
      <Chart
        title={chart.title}
        unit={chart.unit}
        lines={drawn}
        span={span}
        group="fleet"
        height={200}
        stepMs={stepMs}
        version={0}
      />
      {view.value.by !== "fleet" && <ChartLegend lines={drawn} groups={groups} />}
    </div>
  );
}

function ChartLegend({
  lines,
  groups,
}: {
  lines: readonly { label: string; colour: number }[];
  groups: number;
}) {
  return (
    <p class="legend">
      {lines.map((line) => (
        <span class="legend-item" key={line.label}>
          <span class={`line-mark series-${line.colour}`} /> {line.label}
        </span>
      ))}
      {groups > lines.length && (
        <span class="muted">
          the highest {lines.length} of {groups}
        </span>
      )}
    </p>
  );
}

/** The filters that the gateway knows for readings; the list of GPUs settles what is left. */
function narrowing({ cluster, host, model, namespace }: Filters): Query {
  const said = { cluster, hostname: host, model, namespace };
  return Object.fromEntries(Object.entries(said).filter(([, values]) => values.every(isSayable)));
}

/** A comma parts values in a query, and an empty one says nothing. */
function isSayable(value: string): boolean {
  return value !== "" && !value.includes(",");
}
