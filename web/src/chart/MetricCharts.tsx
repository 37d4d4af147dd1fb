/** Every metric of a host or a GPU as charts on one time axis, subject by subject. */

import { useMemo } from "preact/hooks";
import type { Query } from "../api/client";
import type { Metric } from "../api/types";
import { useSeen } from "../components/useSeen";
import { EmptyRange, Failure, Loading } from "../components/Notes";
import { bySubject, titleOf, type Subject } from "../metrics";
import { span } from "../state/clock";
import { Chart, type ChartLine } from "./Chart";
import { useColumns, useLines, type LiveFeed } from "./data";
import { lineLabel, type Line } from "./series";

export interface MetricChartsProps {
  readonly path: string;
  readonly query: Query;
  /** How many series there are of each metric that has been collected. */
  readonly series: ReadonlyMap<string, number>;
  readonly catalogue: readonly Metric[];
  readonly feed: LiveFeed;
  readonly newest: number | null;
  /** Whether lines have their GPU's colour; those of one GPU need not. */
  readonly colourByGpu: boolean;
}

export function MetricCharts(props: MetricChartsProps) {
  const subjects = bySubject([...props.series.keys()]);
  return (
    <>
      {subjects.map((subject) => (
        <SubjectPanel key={subject.title} subject={subject} {...props} />
      ))}
    </>
  );
}

function SubjectPanel({ subject, ...props }: MetricChartsProps & { subject: Subject }) {
  const [frame, seen] = useSeen<HTMLElement>();
  const id = `subject-${subject.title.replaceAll(" ", "-").toLowerCase()}`;
  return (
    <section class="panel" ref={frame} aria-labelledby={id}>
      <header class="panel-head">
        <h2 id={id}>{subject.title}</h2>
      </header>
      {seen ? <SubjectCharts subject={subject} {...props} /> : <div class="charts-ahead" />}
    </section>
  );
}

const POINTS_MAX = 48_000;
const POINTS_PER_LINE = 900;

function SubjectCharts({
  subject,
  path,
  query,
  series,
  catalogue,
  feed,
  newest,
  colourByGpu,
}: MetricChartsProps & { subject: Subject }) {
  const { metrics } = subject;
  const lineCount = metrics.reduce((sum, name) => sum + (series.get(name) ?? 1), 0);
  const points = Math.max(60, Math.min(POINTS_PER_LINE, Math.floor(POINTS_MAX / lineCount)));
  const asked = useColumns(path, { ...query, metric: metrics.join(","), max_points: points });
  const { lines, stepMs, version } = useLines(asked.columns, feed);
  const byMetric = useMemo(() => groupByMetric(lines, colourByGpu), [lines, colourByGpu]);

  if (!asked.columns && asked.error) return <Failure error={asked.error} retry={asked.reload} />;
  if (!asked.columns) return <Loading what={subject.title.toLowerCase()} />;
  if (lines.size === 0) return <EmptyRange newest={newest} />;
  return (
    <>
      <div class="charts">
        {metrics.map((name) => {
          const { unit, lines: own } = byMetric.get(name) ?? { unit: "", lines: [] };
          return (
            <Chart
              key={name}
              title={titleOf(name)}
              hint={catalogue.find((metric) => metric.name === name)?.description}
              unit={unit}
              lines={own}
              span={span.value}
              group="page"
              {...{ stepMs, version }}
            />
          );
        })}
      </div>
      {asked.columns.truncated && (
        <p class="field-note">There is more than fits here: choose a shorter time.</p>
      )}
    </>
  );
}

interface OneMetric {
  readonly unit: string;
  readonly lines: ChartLine[];
}

function groupByMetric(lines: ReadonlyMap<string, Line>, byGpu: boolean): Map<string, OneMetric> {
  const found = new Map<string, OneMetric>();
  for (const line of lines.values()) {
    const own = found.get(line.metric) ?? { unit: line.unit, lines: [] };
    own.lines.push(drawn(line, own.lines.length, byGpu));
    found.set(line.metric, own);
  }
  return found;
}

/** A GPU has the colour of its index in every chart, so that one legend serves them all. */
function drawn(line: Line, place: number, byGpu: boolean): ChartLine {
  const index = byGpu && !line.instance ? Number(line.gpu) : place;
  const { time, value, low, high } = line;
  const colour = Number.isInteger(index) ? index : place;
  return { label: lineLabel(line, "full"), colour, time, value, low, high };
}
