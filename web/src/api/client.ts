/** Asks the gateway. A refusal is an `ApiError` with what the problem document says. */

import type { List } from "./types";

export type Query = Readonly<Record<string, string | number | readonly string[] | undefined>>;

interface Problem {
  readonly title?: string;
  readonly detail?: string;
  readonly errors?: readonly { readonly parameter: string; readonly message: string }[];
}

/** Raised when the gateway refuses, fails, or does not answer (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
    this.name = "ApiError";
  }

  /** Whether asking again may help. */
  get passing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export function urlOf(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    const said = typeof value === "object" ? value : [String(value)];
    for (const each of said) params.append(name, each);
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

/** A filter's value as it stands: a comma would part it, and an empty one would say nothing. */
export function exactly(value: string): string {
  return value === "" ? "\\" : value.replace(/[\\,]/g, "\\$&");
}

export async function getJson<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  const response = await send(urlOf(path, query), signal);
  if (!response.ok) throw new ApiError(response.status, await explain(response));
  return (await response.json()) as T;
}

const PAGES_MAX = 20;

/** All rows of a list, page by page. */
export async function getAll<T>(path: string, query: Query, signal?: AbortSignal): Promise<T[]> {
  const rows: T[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const list: List<T> = await getJson(path, { ...query, cursor }, signal);
    rows.push(...list.data);
    if (!list.next_cursor) break;
    cursor = list.next_cursor;
  }
  return rows;
}

async function send(url: string, signal?: AbortSignal): Promise<Response> {
  try {
    return await fetch(url, { headers: { accept: "application/json" }, ...(signal && { signal }) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The gateway does not answer.");
  }
}

async function explain(response: Response): Promise<string> {
  const problem = (await response.json().catch(() => ({}))) as Problem;
  const wrong = problem.errors?.map((each) => `${each.parameter}: ${each.message}`) ?? [];
  const said = [problem.detail ?? problem.title ?? response.statusText, ...wrong];
  return said.filter(Boolean).join(" ") || `The gateway answered ${response.status}.`;
}
