/** The newest value of each of a GPU's metrics, and the ones that nobody collects. */

import { useEffect, useState } from "preact/hooks";
import { compare } from "../api/gpu";
import type { LiveRows, Metric, Reading } from "../api/types";
import type { LiveFeed } from "../chart/data";
import { lineKey } from "../chart/series";
import { bySubject, clockReasons, titleOf, WORTH_COLLECTING } from "../metrics";
import { now } from "../state/clock";
import { age } from "../time/format";
import { formatValue, NOT_COLLECTED } from "../units";

interface LatestValuesProps {
  readonly latest: readonly Reading[];
  readonly feed: LiveFeed;
  readonly catalogue: readonly Metric[];
}

interface Sample {
  readonly value: number | null;
  readonly at: number;
}

interface Newest extends Sample {
  readonly reading: Reading;
}

export function LatestValues({ latest, feed, catalogue }: LatestValuesProps) {
  const newest = useNewest(latest, feed);
  const rows = inPageOrder([...newest.values()]);
  const missing = WORTH_COLLECTING.filter((name) => !latest.some((each) => each.metric === name));
  const describe = (name: string) => catalogue.find((metric) => metric.name === name)?.description;
  return (
    <aside class="panel latest" aria-labelledby="latest">
      <header class="panel-head">
        <h2 id="latest">Latest values</h2>
      </header>
      <table>
        <tbody>
          {rows.map(({ reading, value, at }) => (
            <tr key={lineKey(reading)} data-metric={reading.metric} data-value={value ?? ""}>
              <th scope="row" title={describe(reading.metric)}>
                {titleOf(reading.metric)}
                {reading.instance && <span class="muted"> {reading.instance}</span>}
              </th>
              <td class="number">{say(reading, value)}</td>
              <td class="number muted">{age(now.value - at)}</td>
            </tr>
          ))}
          {missing.map((name) => (
            <tr key={name} class="muted">
              <th scope="row" title={describe(name)}>
                {titleOf(name)}
              </th>
              <td class="number" colSpan={2}>
                {NOT_COLLECTED}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </aside>
  );
}

function say(reading: Reading, value: number | null): string {
  if (reading.metric === "clock_event_reasons" && value !== null) return clockReasons(value);
  return formatValue(value, reading.unit);
}

function inPageOrder(rows: readonly Newest[]): Newest[] {
  const subjects = bySubject([...new Set(rows.map((row) => row.reading.metric))]);
  const order = subjects.flatMap((subject) => subject.metrics);
  const place = (row: Newest) => order.indexOf(row.reading.metric);
  return [...rows].sort(
    (one, other) =>
      place(one) - place(other) || compare(one.reading.instance, other.reading.instance),
  );
}

/** The stored values with the live ones over them; of several pods' values, the newest. */
function useNewest(latest: readonly Reading[], feed: LiveFeed): ReadonlyMap<string, Newest> {
  const [live, setLive] = useState<ReadonlyMap<string, Sample>>(new Map());
  useEffect(() => feed.listen((rows) => setLive((before) => withRows(before, rows))), [feed]);
  const newest = new Map<string, Newest>();
  for (const reading of latest) {
    const key = lineKey(reading);
    const stored = { value: reading.value, at: Date.parse(reading.timestamp) };
    const seen = newest.get(key) ?? live.get(key);
    newest.set(key, { reading, ...(seen && seen.at >= stored.at ? seen : stored) });
  }
  return newest;
}

function withRows(
  before: ReadonlyMap<string, Sample>,
  rows: LiveRows,
): ReadonlyMap<string, Sample> {
  const next = new Map(before);
  rows.uuid.forEach((uuid, row) => {
    const [metric = "", mig = "", instance = ""] = [
      rows.metric[row],
      rows.mig[row],
      rows.instance[row],
    ];
    const key = lineKey({ metric, uuid, mig, instance });
    next.set(key, { value: rows.value[row] ?? null, at: rows.timestamp[row] ?? 0 });
  });
  return next;
}
