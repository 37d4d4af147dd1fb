/** How the fleet's load and power went, in all, by host or by namespace. */

import { useMemo } from "preact/hooks";
import { exactly, type Query } from "../api/client";
import type { Gpu, GroupColumns, GroupSeries } from "../api/types";
import { Chart } from "../chart/Chart";
import { useColumns } from "../chart/data";
import { EmptyRange, Failure, Loading } from "../components/Notes";
import { now, span } from "../state/clock";
import { changeView, view } from "../state/location";
import type { Filters, Grouping } from "../state/view";
import { lengthOf } from "../time/range";
import {
  GROUPED_BY,
  groupOf,
  LINES_MAX,
  linesOfGroups,
  stepFor,
  stepName,
  type How,
} from "./aggregate";

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
}

export function FleetCharts({ gpus, newest }: FleetChartsProps) {
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
      <GroupCharts gpus={gpus} newest={newest} />
    </section>
  );
}

function GroupCharts({ gpus, newest }: FleetChartsProps) {
  const { by, filters, range } = view.value;
  const stepS = stepFor(lengthOf(range), gpus.length * CHARTS.length);
  const query = {
    metric: CHARTS.map((chart) => chart.metric).join(","),
    resolution: stepName(stepS),
    by: GROUPED_BY[by],
    top: LINES_MAX,
    ...narrowing(filters),
  };
  const { columns, error, reload } = useColumns<GroupColumns>("/api/v1/telemetry", query);
  const groups = useMemo(() => new Set(gpus.map((gpu) => groupOf(gpu, by))).size, [gpus, by]);

  if (!columns && error) return <Failure error={error} retry={reload} />;
  if (!columns) return <Loading what="the charts" />;
  if (columns.groups.length === 0) return <EmptyRange newest={newest} />;
  return (
    <div class="charts two">
      {CHARTS.map((chart) => (
        <FleetChart
          key={chart.metric}
          chart={chart}
          series={columns.groups}
          groups={groups}
          stepMs={stepS * 1000}
        />
      ))}
    </div>
  );
}

interface FleetChartProps {
  readonly chart: FleetLine;
  readonly series: readonly GroupSeries[];
  /** Groups that there are, shown or not. */
  readonly groups: number;
  readonly stepMs: number;
}

function FleetChart({ chart, series, groups, stepMs }: FleetChartProps) {
  const { by } = view.value;
  const lines = useMemo(() => {
    const own = series.filter((each) => each.metric === chart.metric);
    const gathered = linesOfGroups(own, by, chart.how, now.peek() - stepMs);
    return gathered.map((line, colour) => ({ ...line, colour }));
  }, [series, by, chart, stepMs]);
  return (
    <div>
      <Chart
        title={chart.title}
        unit={chart.unit}
        lines={lines}
        span={span.value}
        group="fleet"
        height={200}
        stepMs={stepMs}
        version={0}
      />
      {by !== "fleet" && <ChartLegend lines={lines} groups={groups} />}
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

function narrowing({ cluster, host, model, namespace, state }: Filters): Query {
  const said = { cluster, hostname: host, model, namespace };
  const exact = Object.entries(said).map(([name, values]) => [name, values.map(exactly)]);
  return { ...Object.fromEntries(exact), state };
}
