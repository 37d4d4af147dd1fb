/** How new the data are, and the button that stops or starts their coming. */

import { followsNow, now, paused } from "../state/clock";
import { pauseOrFollow } from "../state/keys";
import { liveState, newestReading } from "../state/live";
import { age } from "../time/format";

type Mood = "live" | "late" | "lost" | "still";

export function LiveButton() {
  const [mood, text, title] = described();
  return (
    <button
      type="button"
      class={`button live ${mood}`}
      title={`${title}  p`}
      onClick={pauseOrFollow}
    >
      <span class="dot" aria-hidden="true" />
      {text}
    </button>
  );
}

function described(): [Mood, string, string] {
  if (!followsNow.value) return ["still", "Fixed range · go live", "Go back to now"];
  if (paused.value) return ["still", "Paused · resume", "Resume live updates"];
  const newest = newestReading.value;
  const how = liveState.value === "open" ? "Live" : "Updating";
  if (newest === null) return ["late", "No readings yet", "Pause live updates"];
  const old = now.value - newest;
  const mood = old < 15_000 ? "live" : old < 120_000 ? "late" : "lost";
  return [mood, `${how} · newest ${age(old)} ago`, "Pause live updates"];
}
