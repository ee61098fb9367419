// bundle.mjs OUTPUT.c: bundles the page into one HTML file, splits it at the place for the data, and writes
// both parts as C arrays for src/page. The Content-Security-Policy of the page contains the hash of the page's
// script and allows no other script, so no data of a trace can be run as a script.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const output = process.argv[2];
const result = await build({
  entryPoints: ["src/main.js"],
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome109", "firefox115", "safari16.4"],
  outfile: "page.js",
  write: false,
  legalComments: "inline",
  logLevel: "warning",
});
const script = result.outputFiles.find(({ path }) => path.endsWith(".js")).text
  .replace(/<\/script/gi, "<\\/script").trim();
const style = result.outputFiles.find(({ path }) => path.endsWith(".css")).text.trim();
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ` +
  "base-uri 'none'; form-action 'none'";

const head = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>allogram</title>
<style>${style}</style>
</head>
<body>
${readFileSync("skeleton.html", "utf8")}`;
const tail = `<script>${script}</script>
</body>
</html>
`;

function array(name, text) {
  const bytes = [...Buffer.from(text, "utf8")];
  const lines = [];
  for (let i = 0; i < bytes.length; i += 32) lines.push(`    ${bytes.slice(i, i + 32).join(",")},`);
  return `const unsigned char ${name}[] = {\n${lines.join("\n")}\n};\n` +
    `const size_t ${name}_bytes = sizeof(${name});\n`;
}

writeFileSync(output, "/* made by viewer/bundle.mjs */\n#include \"page/page_template.h\"\n\n" +
  array("ag_page_template_head", head) + array("ag_page_template_tail", tail) +
  "const char ag_page_template_missing[] = \"\";\n");
