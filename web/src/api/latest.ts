import { getJson, type Query } from "./client";
import type { LatestColumns } from "./types";

const PATH = "/api/v1/telemetry/latest";

/**
 * The last reading of each series. A GPU has a series for every pod that ever held it, so those
 * that ended are left out; unless nothing else is there, as when the tables hold an archive.
 */
export async function getLatest(query: Query, signal?: AbortSignal): Promise<LatestColumns> {
  const asked = { ...query, layout: "columns" };
  const recent = await getJson<LatestColumns>(PATH, { ...asked, since: "now-1h" }, signal);
  return recent.data.uuid.length > 0 ? recent : getJson<LatestColumns>(PATH, asked, signal);
}
