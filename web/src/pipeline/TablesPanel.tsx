/** The tables that readings end in, and how large they are. */

import type { TableSize } from "../api/types";
import { now } from "../state/clock";
import { age, moment } from "../time/format";
import { formatBytes, formatCount } from "../units";

export function TablesPanel({ tables }: { tables: readonly TableSize[] }) {
  return (
    <section class="panel" aria-labelledby="tables">
      <header class="panel-head">
        <h2 id="tables">Tables</h2>
      </header>
      <div class="table-frame">
        <table>
          <thead>
            <tr>
              <th scope="col">Table</th>
              {["Rows", "Files", "Size", "Version"].map((title) => (
                <th scope="col" class="number" key={title}>
                  {title}
                </th>
              ))}
              <th scope="col">Oldest</th>
              <th scope="col">Newest</th>
              <th scope="col">Last commit</th>
            </tr>
          </thead>
          <tbody>
            {tables.map((table) => (
              <tr key={table.name} data-table={table.name}>
                <th scope="row">{table.name}</th>
                <td class="number" data-field="rows">
                  {formatCount(table.rows)}
                </td>
                <td class="number">{formatCount(table.files)}</td>
                <td class="number">{formatBytes(table.bytes)}</td>
                <td class="number">{table.version ?? "–"}</td>
                <td>{when(table.oldest)}</td>
                <td>{when(table.newest)}</td>
                <td>
                  {table.last_commit
                    ? `${age(now.value - Date.parse(table.last_commit))} ago`
                    : "–"}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function when(time: string | null): string {
  return time ? moment(Date.parse(time)) : "–";
}
