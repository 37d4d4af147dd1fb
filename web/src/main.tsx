import { render } from "preact";
import { App } from "./app";
import { startClock } from "./state/clock";
import { listenToKeys } from "./state/keys";
import { followLinks } from "./state/location";
import { followSystemTheme } from "./state/theme";
import "uplot/dist/uPlot.min.css";
import "./styles/main.css";

const root = document.getElementById("app");
if (!root) throw new Error("the page has no #app");

followLinks();
followSystemTheme();
listenToKeys();
startClock();

// A canvas does not wait for its font as text does; the page waits a moment for it instead.
const font = document.fonts.load('12px "Inter Variable"');
const patience = new Promise((resolve) => setTimeout(resolve, 500));
void Promise.race([font, patience]).finally(() => render(<App />, root));
