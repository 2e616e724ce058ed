// What became of a message: one foldable block under it, filled as its stages report.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  // Strings become text nodes: nothing anybody types is ever read as HTML.
  node.append(...children.filter((child) => child != null));
  return node;
}

const milliseconds = (ms) => (ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`);
const FINAL = new Set(["done", "stopped", "blocked", "failed", "cancelled", "unknown"]);
const PLUMBING = /^console\./;

export class Trace {
  constructor() {
    this.state = "sending";
    this.runId = "";
    this.planned = [];
    this.steps = [];
    this.outcome = null;
    this.reason = "";
    this.ms = 0;
    this.mark = element("span", { class: "mark live", "aria-hidden": "true" });
    this.words = element("span", {}, "sending…");
    this.list = element("ol", { class: "stages", "aria-label": "Stages" });
    this.node = element("details", { class: "trace" }, element("summary", {}, this.mark, this.words), this.list);
  }

  get finished() { return FINAL.has(this.outcome); }

  waiting(words) { this.state = "waiting"; this.draw(words); }

  accepted(runId, stages) {
    this.state = "accepted";
    this.runId = runId;
    if (stages?.length) this.planned = stages;
    this.draw();
  }

  progress(frame) {
    if (this.finished || frame.kind !== "step") return;
    this.steps.push({ handler: frame.handler, outcome: frame.outcome, reason: frame.reason, ms: frame.ms });
    this.draw();
  }

  settle(result) {
    this.outcome = result.outcome;
    this.reason = result.reason || "";
    this.ms = result.ms;
    if (result.steps.length || this.finished) this.steps = result.steps;
    this.draw();
  }

  // The stage at work: the first planned one that has not reported, unless an earlier one ended the chain.
  get running() {
    if (this.finished || this.state !== "accepted") return "";
    const last = this.steps.findLast((step) => this.planned.includes(step.handler));
    if (last && ["stop", "block", "failed"].includes(last.outcome)) return "";
    return this.planned.find((name) => !this.steps.some((step) => step.handler === name)) ?? "";
  }

  summary() {
    if (this.state === "sending") return "sending…";
    if (!this.finished) return this.running ? `${this.running} …` : this.steps.length ? "finishing …" : "accepted, waiting for a worker …";
    const ender = this.steps.findLast((step) => ["stop", "block", "failed"].includes(step.outcome) && !PLUMBING.test(step.handler));
    const answered = this.steps.some((step) => step.handler === "console.deliver" && step.outcome !== "failed");
    if (answered) return `answered in ${milliseconds(this.ms)}`;
    if (this.outcome === "unknown") return "the trace is no longer kept";
    const why = ender?.reason || this.reason;
    const where = ender ? ` at ${ender.handler}` : "";
    return `no answer: ${this.outcome}${where}${why ? ` (${why})` : ""}`;
  }

  look() {
    if (!this.finished) return "mark live";
    if (this.outcome === "failed" || this.outcome === "cancelled") return "mark bad";
    return this.steps.some((step) => step.handler === "console.deliver") ? "mark done" : "mark quiet";
  }

  draw(words) {
    this.words.textContent = words ?? this.summary();
    this.mark.className = this.look();
    const longest = Math.max(1, ...this.steps.map((step) => step.ms));
    const rows = this.steps.map((step) => row(step, longest));
    for (const name of this.finished ? [] : this.planned.filter((planned) => !this.steps.some((step) => step.handler === planned))) {
      rows.push(row({ handler: name, outcome: name === this.running ? "running" : "waiting", reason: "", ms: null }, longest));
    }
    if (this.runId) rows.push(element("li", { class: "foot" }, `run ${this.runId}${this.finished ? `, ${this.outcome}` : ""}`));
    this.list.replaceChildren(...rows);
  }
}

function row(step, longest) {
  const known = step.ms != null;
  return element("li", {},
    element("span", { class: "handler" }, step.handler),
    element("span", { class: `tag ${step.outcome}` }, step.outcome),
    element("span", { class: "ms" }, known ? milliseconds(step.ms) : ""),
    step.reason ? element("span", { class: "reason" }, step.reason) : null,
    known ? element("progress", { class: "bar", max: longest, value: step.ms, "aria-hidden": "true" }) : null,
  );
}
