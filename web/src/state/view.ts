/**
 * What the reader has chosen, as the URL says it: a link shows another person the same thing.
 *
 * Reading is lenient (what makes no sense is left at its default), writing leaves defaults out.
 */

import { GPU_STATES, type Gpu, type GpuState } from "../api/types";
import { DEFAULT_RANGE, readRange, writeRange, type Range } from "../time/range";

export const FILTERS = ["cluster", "host", "model", "namespace", "state"] as const;

export type FilterName = (typeof FILTERS)[number];
export type Filters = Readonly<Record<FilterName, readonly string[]>>;
export type Grouping = "fleet" | "host" | "namespace";

const GROUPINGS: readonly Grouping[] = ["fleet", "host", "namespace"];

export interface View {
  readonly range: Range;
  readonly filters: Filters;
  readonly metric: string;
  readonly by: Grouping;
}

export const NO_FILTERS: Filters = { cluster: [], host: [], model: [], namespace: [], state: [] };
export const DEFAULT_VIEW: View = {
  range: DEFAULT_RANGE,
  filters: NO_FILTERS,
  metric: "gpu_util",
  by: "fleet",
};

export function readView(search: string): View {
  const params = new URLSearchParams(search);
  const all = (name: FilterName) => [...new Set(params.getAll(name))];
  return {
    range: readRange(params),
    filters: {
      cluster: all("cluster"),
      host: all("host"),
      model: all("model"),
      namespace: all("namespace"),
      state: all("state").filter((state) => GPU_STATES.includes(state as GpuState)),
    },
    metric: params.get("metric") || DEFAULT_VIEW.metric,
    by: GROUPINGS.find((each) => each === params.get("by")) ?? DEFAULT_VIEW.by,
  };
}

export function writeView(view: View): string {
  const params = new URLSearchParams();
  writeRange(view.range, params);
  for (const name of FILTERS) for (const value of view.filters[name]) params.append(name, value);
  if (view.metric !== DEFAULT_VIEW.metric) params.set("metric", view.metric);
  if (view.by !== DEFAULT_VIEW.by) params.set("by", view.by);
  const text = params.toString();
  return text ? `?${text}` : "";
}

export function isFiltered(filters: Filters): boolean {
  return FILTERS.some((name) => filters[name].length > 0);
}

/** What a filter looks at. */
export function traitOf(gpu: Gpu, name: FilterName): string {
  return name === "host" ? gpu.hostname : gpu[name];
}

export function matches(gpu: Gpu, filters: Filters): boolean {
  return FILTERS.every(
    (name) => filters[name].length === 0 || filters[name].includes(traitOf(gpu, name)),
  );
}
