/** The frame around every page: navigation, time, live state, theme, help. */

import { useEffect, useRef } from "preact/hooks";
import { Help } from "./components/Help";
import { LiveButton } from "./components/LiveButton";
import { Note } from "./components/Notes";
import { TimePicker } from "./components/TimePicker";
import { FleetPage } from "./pages/FleetPage";
import { GpuPage } from "./pages/GpuPage";
import { HostPage } from "./pages/HostPage";
import { PipelinePage } from "./pages/PipelinePage";
import { helpShown } from "./state/keys";
import { linkTo, route } from "./state/location";
import { FLEET, pathOf, PIPELINE, type Route } from "./state/route";
import { theme, toggleTheme } from "./state/theme";

export function App() {
  useArrival();
  return (
    <>
      <a class="skip" href="#main">
        Skip to the data
      </a>
      <Header />
      <main id="main" tabIndex={-1}>
        <Page at={route.value} />
      </main>
      <Help />
    </>
  );
}

/** A new page is named in the tab, begins at its top, and has the focus. */
function useArrival(): void {
  const path = pathOf(route.value);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${titleOf(route.value)} · Nexus`;
    if (!first.current) {
      document.getElementById("main")?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    first.current = false;
  }, [path]);
}

function titleOf(at: Route): string {
  switch (at.page) {
    case "fleet":
      return "Fleet";
    case "pipeline":
      return "Pipeline";
    case "host":
      return at.host;
    case "gpu":
      return at.uuid;
    case "missing":
      return "No such page";
  }
}

function Header() {
  const { page } = route.value;
  const other = theme.value === "dark" ? "light" : "dark";
  return (
    <header class="top">
      <a class="brand" href={linkTo(FLEET)} aria-label="Nexus, the fleet">
        <img src="/favicon.svg" alt="" width="22" height="22" />
        Nexus
      </a>
      <nav class="tabs" aria-label="Pages">
        <a href={linkTo(FLEET)} aria-current={page === "pipeline" ? undefined : "page"}>
          Fleet
        </a>
        <a href={linkTo(PIPELINE)} aria-current={page === "pipeline" ? "page" : undefined}>
          Pipeline
        </a>
      </nav>
      <div class="top-right">
        <LiveButton />
        <TimePicker />
        <button
          type="button"
          class="button icon"
          aria-label={`Use the ${other} theme`}
          title={`Use the ${other} theme  d`}
          onClick={toggleTheme}
        >
          {theme.value === "dark" ? "☀" : "☾"}
        </button>
        <button
          type="button"
          class="button icon"
          aria-label="Keyboard help"
          title="Keyboard help  ?"
          onClick={() => (helpShown.value = true)}
        >
          ?
        </button>
      </div>
    </header>
  );
}

function Page({ at }: { at: Route }) {
  switch (at.page) {
    case "fleet":
      return <FleetPage />;
    case "host":
      return <HostPage key={`${at.cluster} ${at.host}`} cluster={at.cluster} host={at.host} />;
    case "gpu":
      return <GpuPage key={at.uuid} uuid={at.uuid} />;
    case "pipeline":
      return <PipelinePage />;
    case "missing":
      return (
        <Note title="There is no such page">
          <a class="button primary" href={linkTo(FLEET)}>
            The fleet
          </a>
        </Note>
      );
  }
}
