import { defineConfig } from "vitest/config";

// `npm run dev` shows the page with changes as they are saved; data come from a gateway.
const gateway = "http://127.0.0.1:8080";

export default defineConfig({
  build: {
    outDir: "../src/nexus/gateway/static",
    emptyOutDir: true,
    // The content security policy allows files of our own and nothing inline.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    // Whoever gets the page gets the licences of what it is built with.
    license: { fileName: "licences.txt" },
  },
  server: { proxy: { "/api": gateway } },
  test: { environment: "node", include: ["src/**/*.test.ts"] },
});
