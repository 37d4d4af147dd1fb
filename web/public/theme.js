// Runs before the first paint, so that a chosen theme never flashes in the other one.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem("nexus-theme");
  } catch (error) {
    // Storage may be forbidden; the system's theme it is, then.
  }
  var light = window.matchMedia("(prefers-color-scheme: light)").matches;
  document.documentElement.dataset.theme = chosen || (light ? "light" : "dark");
})();
