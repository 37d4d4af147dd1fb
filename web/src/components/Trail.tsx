/** The way back up: cluster, host. */

import { linkTo } from "../state/location";
import { FLEET } from "../state/route";
import { NO_FILTERS } from "../state/view";

interface Step {
  readonly title: string;
  readonly href: string;
}

export function Trail({ steps }: { steps: readonly Step[] }) {
  const all = [{ title: "Fleet", href: linkTo(FLEET, { filters: NO_FILTERS }) }, ...steps];
  return (
    <nav class="trail" aria-label="Where this is">
      {all.map((step) => (
        <a key={step.href} href={step.href}>
          {step.title || "none"}
        </a>
      ))}
    </nav>
  );
}
