/** What stands where data would: nothing yet, nothing here, or no answer; and what to do then. */

import type { ComponentChildren } from "preact";
import type { ApiError } from "../api/client";
import { linkTo, route, view } from "../state/location";
import { describeRange, moment } from "../time/format";
import { between, lengthOf, spellDuration, type Range } from "../time/range";

export function Note({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="note" role="status">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

export function Failure({ error, retry }: { error: ApiError; retry: () => void }) {
  const away = error.status === 0;
  return (
    <div class="note failure" role="alert">
      <strong>{away ? "The gateway does not answer" : "The gateway could not answer"}</strong>
      <p>
        {away
          ? "What you see may be old. It is asked again every few seconds; if it stays away, see whether `nexus gateway` runs."
          : error.message}
      </p>
      <button type="button" class="button" onClick={retry}>
        Ask again
      </button>
    </div>
  );
}

/** Nothing in the chosen time: says when there was something, with a link there. */
export function EmptyRange({ newest }: { newest: number | null }) {
  const { range } = view.value;
  if (newest === null)
    return <Note title={`No readings ${inRange(range)}`}>Choose a longer time.</Note>;
  const length = lengthOf(range);
  const there = linkTo(route.value, { range: between(newest - length, newest + 1000) });
  return (
    <Note title={`No readings ${inRange(range)}`}>
      <p>The newest reading is from {moment(newest)}.</p>
      <a class="button primary" href={there}>
        Show the {spellDuration(Math.round(length / 1000) * 1000)} up to it
      </a>
    </Note>
  );
}

function inRange(range: Range): string {
  if (range.kind === "relative") return `in the last ${spellDuration(range.ms)}`;
  return `in ${describeRange(range)}`;
}

export function NoGpus() {
  return (
    <Note title="No GPUs yet">
      <p>
        They appear with their first readings. <code>nexus up</code> starts a simulated fleet;{" "}
        <code>nexus streamer --source exporter://HOST:9400</code> sends those of your own.
      </p>
    </Note>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p class="loading" role="status">
      Loading {what}…
    </p>
  );
}
