/** The hosts of the fleet in rows, each a link to its page. */

import { useMemo, useState } from "preact/hooks";
import type { Gpu } from "../api/types";
import { StateBar } from "../components/StateBar";
import { now } from "../state/clock";
import { linkTo } from "../state/location";
import { age } from "../time/format";
import { formatCount, formatValue } from "../units";
import { hostRows, type HostRow } from "./hosts";
import type { Latest } from "./latest";

const SHOWN = 20;

export function HostTable({ gpus, samples }: { gpus: readonly Gpu[]; samples: Latest }) {
  const [all, setAll] = useState(false);
  const rows = useMemo(
    () => hostRows(gpus, samples.of("power"), now.value),
    [gpus, samples.of("power").size],
  );
  return (
    <section class="panel" aria-labelledby="hosts">
      <header class="panel-head">
        <h2 id="hosts">Hosts</h2>
        <span class="muted">{formatCount(rows.length)}</span>
      </header>
      <div class="table-frame">
        <table class="host-table">
          <thead>
            <tr>
              <th scope="col">Host</th>
              <th scope="col">Cluster</th>
              <th scope="col">GPUs</th>
              <th scope="col">States</th>
              <th scope="col" class="number">
                Busy
              </th>
              <th scope="col" class="number">
                Power
              </th>
              <th scope="col" class="number">
                Last reading
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, all ? rows.length : SHOWN).map((row) => (
              <Row key={`${row.cluster} ${row.host}`} row={row} />
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > SHOWN && !all && (
        <button type="button" class="button quiet" onClick={() => setAll(true)}>
          Show all {formatCount(rows.length)}
        </button>
      )}
    </section>
  );
}

function Row({ row }: { row: HostRow }) {
  const { cluster, host, totals } = row;
  return (
    <tr data-host={host}>
      <th scope="row">
        <a href={linkTo({ page: "host", cluster, host })}>{host || "no host"}</a>
      </th>
      <td>{cluster}</td>
      <td>
        {totals.gpus} × {row.models.join(", ") || "unknown model"}
      </td>
      <td class="states-cell">
        <StateBar totals={totals} />
      </td>
      <td class="number">{row.busy === null ? "–" : formatValue(row.busy, "ratio")}</td>
      <td class="number">{totals.measured > 0 ? formatValue(totals.watts, "W") : "–"}</td>
      <td class="number">{row.lastSeen === null ? "–" : `${age(now.value - row.lastSeen)} ago`}</td>
    </tr>
  );
}
