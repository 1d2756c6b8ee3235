// Builds the bundle into src/kinetoscope/server/static: index.html, app.js, timeline.js, history.js, app.css, vega.js,
// report.js (app.js, timeline.js and history.js in one) and THIRD_PARTY.txt.
//
// Vega is a script of its own, loaded with the first chart: nine tenths of all bytes are Vega's. It is a classic script
// that sets a global, because a report that is opened as a file cannot import modules, but can hold this one inline.

import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const web = dirname(fileURLToPath(import.meta.url));
const outDir = process.env.OUT ?? join(web, "../src/kinetoscope/server/static");

/** Modules that ended in the bundle, to name their licences. */
const bundled = new Set();
const remember = {
  name: "remember",
  generateBundle(_, files) {
    for (const file of Object.values(files)) for (const id of Object.keys(file.modules ?? {})) bundled.add(id);
  },
};

const common = { root: web, configFile: false, logLevel: "warn", base: "./" };
const target = "es2022";

// The page as a server gives it: the timeline comes when it is first looked at.
await build({
  ...common,
  plugins: [remember],
  build: {
    target,
    outDir,
    emptyOutDir: true,
    cssCodeSplit: false,
    modulePreload: false,
    rolldownOptions: {
      output: {
        entryFileNames: "app.js",
        chunkFileNames: "[name].js",
        assetFileNames: (asset) => (asset.names[0]?.endsWith(".css") ? "app.css" : "[name][extname]"),
      },
    },
  },
});

// The whole page in one file, for reports.
await build({
  ...common,
  build: {
    target,
    outDir,
    emptyOutDir: false,
    cssCodeSplit: false,
    modulePreload: false,
    rolldownOptions: {
      input: join(web, "src/main.tsx"),
      output: { codeSplitting: false, entryFileNames: "report.js", assetFileNames: "app.css" },
    },
  },
});

await build({
  ...common,
  plugins: [remember],
  build: {
    target,
    outDir,
    emptyOutDir: false,
    copyPublicDir: false,
    lib: {
      entry: join(web, "src/draw/vega.ts"),
      formats: ["iife"],
      name: "KinetoscopeVega",
      fileName: () => "vega.js",
    },
  },
});

writeFileSync(join(outDir, "THIRD_PARTY.txt"), licences());

function licences() {
  const found = new Map();
  for (const id of bundled) {
    const at = id.replace(/^\0/, "").lastIndexOf("node_modules/");
    if (at < 0) continue;
    const rest = id.slice(at + "node_modules/".length).split("/");
    const name = rest[0].startsWith("@") ? `${rest[0]}/${rest[1]}` : rest[0];
    found.set(name, join(id.slice(0, at).replace(/^\0/, ""), "node_modules", name));
  }
  const parts = ["The page contains these packages, under their licences:\n"];
  for (const [name, folder] of [...found].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const facts = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    parts.push(`${"-".repeat(80)}\n${name} ${facts.version} (${facts.license})\n\n${text(folder)}\n`);
  }
  return parts.join("\n");
}

function text(folder) {
  for (const name of ["LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "license"])
    try {
      return readFileSync(join(folder, name), "utf8").trim();
    } catch {
      // The next name, then.
    }
  throw new Error(`${folder} has no licence`);
}
