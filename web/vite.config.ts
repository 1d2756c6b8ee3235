import { defineConfig } from "vite";

/** `npm run dev`: the page with reloading, asking a `kinetoscope view` on port 8270 (or KINETOSCOPE) for answers. */
export default defineConfig({
  base: "./",
  server: {
    proxy: { "/api": { target: process.env["KINETOSCOPE"] ?? "http://127.0.0.1:8270", changeOrigin: true } },
  },
});
