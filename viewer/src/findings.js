// findings.js: the findings at the top of the page, with the lines and words of `allogram report`. `allogram view` computes them when it
// writes the page (src/model/answers/findings.c).
import { shortName } from "./quantity.js";
import { shellWord } from "./shell.js";
import { baseName } from "./trace.js";

// The metric (a key of METRICS in range.js) and the unit that the page selects when a finding is clicked, by the kind of the finding.
const SHOWN = {
  growing_leak: ["leaked", "bytes"], temporary_storm: ["temporary", "blocks"], peak_holder: ["peak", "bytes"],
  growth_until_exit: ["peak", "bytes"], constant_steps: ["allocated", "bytes"], outsized_blocks: ["peak", "bytes"],
  mapped_memory: ["peak", "bytes"], resident_free: ["in_use", "bytes"],
  foreign_frees: ["allocated", "blocks"], unseen_allocations: ["allocated", "blocks"], unseen_frees: ["in_use", "blocks"],
};

export function findings({ trace }) {
  const { findings: found, file } = trace.facts;
  return found.map((finding) => {
    const { frame, function: name, file: source, line, column, end_column: end, text, options } = finding;
    const [metric, unit] = SHOWN[finding.kind] ?? ["allocated", "bytes"];
    return { ...finding, metric, unit, fn: trace.functionOf[frame], name: name ?? "", short: shortName(name ?? ""),
      place: source ? `${baseName(source)}${line ? `:${line}${end ? `:${column}-${end}` : ""}` : ""}` : "",
      text, command: `allogram report ${shellWord(finding.trace ?? file)} ${options}` };
  });
}
