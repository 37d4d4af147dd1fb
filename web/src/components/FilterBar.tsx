/** Which GPUs the fleet page shows. */

import { useState } from "preact/hooks";
import { compare } from "../api/gpu";
import type { Gpu } from "../api/types";
import { changeView, setFilter, view } from "../state/location";
import { FILTERS, isFiltered, matches, NO_FILTERS, traitOf, type FilterName } from "../state/view";
import { Menu } from "./Menu";

const TITLES: Readonly<Record<FilterName, string>> = {
  cluster: "Cluster",
  host: "Host",
  model: "Model",
  namespace: "Namespace",
  state: "State",
};

export function FilterBar({ gpus }: { gpus: readonly Gpu[] }) {
  return (
    <div class="filters" role="group" aria-label="Filters">
      {FILTERS.map((name) => (
        <FilterMenu key={name} name={name} gpus={gpus} />
      ))}
      {isFiltered(view.value.filters) && (
        <button
          type="button"
          class="button quiet"
          onClick={() => changeView({ filters: NO_FILTERS })}
        >
          Clear filters
        </button>
      )}
    </div>
  );
}

function FilterMenu({ name, gpus }: { name: FilterName; gpus: readonly Gpu[] }) {
  const chosen = view.value.filters[name];
  const title = TITLES[name];
  const label = chosen.length === 0 ? title : `${title}: ${summary(chosen)}`;
  return (
    <Menu name={title} label={label} active={chosen.length > 0}>
      {() => <Options name={name} gpus={gpus} />}
    </Menu>
  );
}

function summary(chosen: readonly string[]): string {
  return chosen.length === 1 ? chosen[0] || "none" : `${chosen.length} chosen`;
}

const SEARCH_FROM = 10;
const SHOWN_MAX = 200;

function Options({ name, gpus }: { name: FilterName; gpus: readonly Gpu[] }) {
  const [sought, setSought] = useState("");
  const { filters } = view.value;
  const chosen = filters[name];
  const options = optionsOf(gpus, name);
  const found = options.filter(([value]) => value.toLowerCase().includes(sought.toLowerCase()));
  const toggle = (value: string): void =>
    setFilter(
      name,
      chosen.includes(value) ? chosen.filter((each) => each !== value) : [...chosen, value],
    );
  return (
    <div class="options">
      {options.length >= SEARCH_FROM && (
        <input
          type="search"
          class="search"
          placeholder={`Search ${options.length}`}
          aria-label={`Search ${TITLES[name]}`}
          value={sought}
          onInput={(event) => setSought(event.currentTarget.value)}
        />
      )}
      {found.slice(0, SHOWN_MAX).map(([value, count]) => (
        <label class="option check" key={value}>
          <input type="checkbox" checked={chosen.includes(value)} onChange={() => toggle(value)} />
          <span class="option-name">{value || "none"}</span>
          <span class="muted">{count}</span>
        </label>
      ))}
      {found.length === 0 && <p class="field-note">Nothing by that name.</p>}
      {found.length > SHOWN_MAX && (
        <p class="field-note">{found.length - SHOWN_MAX} more: search.</p>
      )}
    </div>
  );
}

/** The values there are, with how many GPUs have them under the other filters. */
function optionsOf(gpus: readonly Gpu[], name: FilterName): [string, number][] {
  const others = { ...view.value.filters, [name]: [] };
  const counts = new Map<string, number>(view.value.filters[name].map((value) => [value, 0]));
  for (const gpu of gpus) {
    const value = traitOf(gpu, name);
    counts.set(value, (counts.get(value) ?? 0) + (matches(gpu, others) ? 1 : 0));
  }
  return [...counts].sort(([one], [other]) => compare(one, other));
}
