/** What was refused in the chosen time, by reason, and the newest of it word by word. */

import { getJson } from "../api/client";
import type { List, Refusal } from "../api/types";
import { Failure, Loading } from "../components/Notes";
import { countBy } from "../pages/counting";
import { followsNow, now } from "../state/clock";
import { view } from "../state/location";
import { useResource } from "../state/resource";
import { describeRange, moment } from "../time/format";
import { asQuery, resolve } from "../time/range";
import { formatCount } from "../units";

const EVERY_MS = 10_000;
const LIMIT = 1000;
const SHOWN = 50;

export function QuarantinePanel() {
  const { range } = view.value;
  const found = useResource({
    key: JSON.stringify(range),
    load: (signal) => {
      const span = asQuery(resolve(view.value.range, now.value));
      const query = { ...span, limit: LIMIT, order: "desc" };
      return getJson<List<Refusal>>("/api/v1/quarantine", query, signal);
    },
    every: followsNow.value ? EVERY_MS : 0,
  });
  return (
    <section class="panel" aria-labelledby="quarantine">
      <header class="panel-head">
        <h2 id="quarantine">Quarantine</h2>
        <span class="muted">{describeRange(range)}</span>
      </header>
      {!found.data && found.error && <Failure error={found.error} retry={found.reload} />}
      {!found.data && !found.error && <Loading what="the quarantine" />}
      {found.data && <Refusals list={found.data} />}
    </section>
  );
}

function Refusals({ list }: { list: List<Refusal> }) {
  const rows = list.data;
  if (rows.length === 0) return <p class="quiet-note">Nothing was refused in this time.</p>;
  const reasons = [...countBy(rows, (row) => row.reason)].sort(([, one], [, other]) => other - one);
  return (
    <>
      {list.next_cursor && <p class="field-note">The newest {formatCount(LIMIT)} are counted.</p>}
      <table class="reasons">
        <tbody>
          {reasons.map(([reason, count]) => (
            <tr key={reason}>
              <th scope="row">{reason}</th>
              <td class="number">{formatCount(count)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="refusals">
        {rows.slice(0, SHOWN).map((row) => (
          <li key={`${row.topic} ${row.partition} ${row.offset} ${row.row}`}>
            <details>
              <summary>
                <span class="muted">{moment(Date.parse(row.refused))}</span> {row.reason}
              </summary>
              <p class="muted">
                {row.topic} · partition {row.partition} · offset {row.offset} · row {row.row}
                {row.source && ` · from ${row.source}`}
              </p>
              <pre>{row.raw ?? row.raw_base64 ?? ""}</pre>
            </details>
          </li>
        ))}
      </ul>
    </>
  );
}
