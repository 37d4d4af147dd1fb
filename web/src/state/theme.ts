/** Dark or light: what the system says until the reader chooses. */

import { signal } from "@preact/signals";

export type Theme = "dark" | "light";

const STORED = "nexus-theme";

export const theme = signal<Theme>(
  document.documentElement.dataset["theme"] === "light" ? "light" : "dark",
);

export function toggleTheme(): void {
  const next = theme.value === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(STORED, next);
  } catch {
    // Storage may be forbidden: the choice lasts as long as the page.
  }
  show(next);
}

/** Follows the system's theme for as long as nothing was chosen. */
export function followSystemTheme(): void {
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", (event) => {
    if (!chosen()) show(event.matches ? "light" : "dark");
  });
}

function show(next: Theme): void {
  document.documentElement.dataset["theme"] = next;
  theme.value = next;
}

function chosen(): boolean {
  try {
    return localStorage.getItem(STORED) !== null;
  } catch {
    return false;
  }
}

/** A colour of the style sheet, for what is drawn on a canvas. */
export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
