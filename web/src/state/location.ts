/** Where the reader is: the route and the view, kept in the address bar and nowhere else. */

import { computed, signal } from "@preact/signals";
import type { Range } from "../time/range";
import { parsePath, pathOf, type Route } from "./route";
import { readView, writeView, type FilterName, type View } from "./view";

const address = signal({ path: location.pathname, search: location.search });

export const route = computed<Route>(() => parsePath(address.value.path));
export const view = computed<View>(() => readView(address.value.search));

/** The address of a page in the view as it is, but for these changes. */
export function linkTo(to: Route, changes: Partial<View> = {}): string {
  return pathOf(to) + writeView({ ...view.value, ...changes });
}

export function go(href: string, how: "push" | "replace" = "push"): void {
  if (how === "push") history.pushState(null, "", href);
  else history.replaceState(null, "", href);
  address.value = { path: location.pathname, search: location.search };
}

export function changeView(changes: Partial<View>): void {
  go(linkTo(route.value, changes));
}

export function setRange(range: Range): void {
  changeView({ range });
}

export function setFilter(name: FilterName, values: readonly string[]): void {
  changeView({ filters: { ...view.value.filters, [name]: values } });
}

/** Links work as links do everywhere; a plain click on one of ours changes the page in place. */
export function followLinks(): void {
  addEventListener("popstate", () => go(location.href, "replace"));
  document.addEventListener("click", (event) => {
    const anchor = event.target instanceof Element ? event.target.closest("a") : null;
    if (!anchor || !isOurs(anchor, event)) return;
    event.preventDefault();
    go(anchor.href);
  });
}

function isOurs(anchor: HTMLAnchorElement, event: MouseEvent): boolean {
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
  const inPage = anchor.origin === location.origin && !anchor.pathname.startsWith("/api/");
  return plain && inPage && !anchor.target && !event.defaultPrevented;
}
