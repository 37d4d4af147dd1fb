/** How far behind the collector is, partition by partition. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Collector, Queue } from "../api/types";
import { Chart } from "../chart/Chart";
import { Note } from "../components/Notes";
import { formatCount, shortNumber } from "../units";
import { arrivalsOf, lagRows, ratesOf, type Arrivals, type LagRow } from "./lag";

export function LagPanel({ queue, collector }: { queue: Queue; collector: Collector }) {
  const rows = lagRows(queue, collector.lag_by_partition ?? {});
  const most = Math.max(1, ...rows.map((row) => row.lag ?? 0));
  const total = rows.reduce((sum, row) => sum + (row.messages ?? 0), 0);
  const rates = useRates(queue);
  const now = rates.value.at(-1);
  return (
    <section class="panel" aria-labelledby="lag">
      <header class="panel-head">
        <h2 id="lag">Queue {queue.topic}</h2>
        <span class="muted">
          {now !== undefined && `${shortNumber(now)} messages in a second · `}
          {formatCount(total)} kept
        </span>
      </header>
      {rates.time.length > 1 && <Arriving rates={rates} />}
      {queue.reachable ? (
        <LagTable rows={rows} most={most} />
      ) : (
        <Note title={`The queue does not answer at ${queue.url}`}>{queue.detail}</Note>
      )}
    </section>
  );
}

const LOOKS_MAX = 240;

/** How fast messages came since the page was opened. */
function useRates(queue: Queue): Rates {
  const [looks, setLooks] = useState<readonly Arrivals[]>([]);
  useEffect(() => {
    if (queue.reachable) setLooks((before) => [...before, arrivalsOf(queue)].slice(-LOOKS_MAX));
  }, [queue]);
  return useMemo(() => ratesOf(looks), [looks]);
}

type Rates = ReturnType<typeof ratesOf>;

function Arriving({ rates }: { rates: Rates }) {
  const lines = [{ ...rates, label: "Messages in", colour: 5, low: [], high: [] }];
  const span = { start: rates.time[0] ?? 0, end: rates.time.at(-1) ?? 1 };
  const title = "Messages in a second, since this page was opened";
  return (
    <Chart
      {...{ title, lines, span }}
      unit="count"
      group="queue"
      height={110}
      stepMs={null}
      version={0}
    />
  );
}

function LagTable({ rows, most }: { rows: readonly LagRow[]; most: number }) {
  return (
    <table class="lag-table">
      <thead>
        <tr>
          <th scope="col">Partition</th>
          <th scope="col" class="number">
            Messages
          </th>
          <th scope="col" class="number">
            End
          </th>
          <th scope="col">Waiting</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.partition} data-partition={row.partition}>
            <th scope="row">{row.partition}</th>
            <td class="number">{formatCount(row.messages)}</td>
            <td class="number">{row.end === null ? "–" : formatCount(row.end)}</td>
            <td class="bar-cell">
              <div class="bar-row">
                <span class="bar">
                  <span class="bar-fill" style={{ width: `${(100 * (row.lag ?? 0)) / most}%` }} />
                </span>
                <span class="number">{row.lag === null ? "–" : formatCount(row.lag)}</span>
              </div>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
