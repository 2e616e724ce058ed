/**
 * A README as HTML: headings, paragraphs, lists, quotes, code, tables, rules, links and emphasis. Raw HTML is shown as
 * text and images become links, so nothing is fetched and nothing runs; everything passes through `escaped`.
 */
import { escaped, Html } from "./html";

const MOST = 100_000;

export function markdown(source: string): Html {
  return new Html(blocks(source.slice(0, MOST).replace(/\r\n?/g, "\n").split("\n"), 0));
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ROW = /^\s*\|.*\|\s*$/;
const DEEPEST = 6;

function blocks(lines: string[], depth: number): string {
  const out: string[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (line.trim() === "") {
      at += 1;
    } else if (fence !== null) {
      const mark = fence[1] ?? "```";
      let end = at + 1;
      while (end < lines.length && !(lines[end] ?? "").trimStart().startsWith(mark)) end += 1;
      out.push(`<pre><code>${escaped(lines.slice(at + 1, end).join("\n"))}</code></pre>`);
      at = end + 1;
    } else if (heading !== null) {
      const level = Math.min(6, (heading[1]?.length ?? 1) + 1);
      out.push(`<h${level}>${inline(heading[2] ?? "")}</h${level}>`);
      at += 1;
    } else if (RULE.test(line)) {
      out.push("<hr>");
      at += 1;
    } else if (depth < DEEPEST && QUOTE.test(line)) {
      const quoted = taken(lines, at, (text) => QUOTE.test(text));
      out.push(`<blockquote>${blocks(quoted.map((text) => QUOTE.exec(text)?.[1] ?? ""), depth + 1)}</blockquote>`);
      at += quoted.length;
    } else if (depth < DEEPEST && ITEM.test(line)) {
      const [text, used] = list(lines, at, depth);
      out.push(text);
      at += used;
    } else if (ROW.test(line) && /^[\s|:-]+$/.test(lines[at + 1] ?? "")) {
      const rows = taken(lines, at, (text) => ROW.test(text));
      out.push(table(rows));
      at += rows.length;
    } else {
      const text = paragraph(lines, at);
      out.push(`<p>${inline(text.join("\n"))}</p>`);
      at += text.length;
    }
  }
  return out.join("\n");
}

function taken(lines: string[], from: number, belongs: (line: string) => boolean): string[] {
  let end = from;
  while (end < lines.length && belongs(lines[end] ?? "")) end += 1;
  return lines.slice(from, end);
}

function paragraph(lines: string[], from: number): string[] {
  const starts = (line: string): boolean =>
    line.trim() === "" || FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || ITEM.test(line);
  let end = from + 1;
  while (end < lines.length && !starts(lines[end] ?? "")) end += 1;
  return lines.slice(from, end);
}

function list(lines: string[], from: number, depth: number): [string, number] {
  const ordered = /^\s*\d/.test(lines[from] ?? "");
  const items: string[][] = [];
  let at = from;
  for (; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const item = ITEM.exec(line);
    if (item !== null && /^\d/.test(item[2] ?? "") === ordered) items.push([item[3] ?? ""]);
    else if (item === null && (/^\s{2,}/.test(line) || (line.trim() === "" && /^\s{2,}\S/.test(lines[at + 1] ?? "")))) {
      items.at(-1)?.push(line.replace(/^ {1,4}/, ""));
    } else break;
  }
  const tag = ordered ? "ol" : "ul";
  const inner = items.map((item) => `<li>${item.length === 1 ? inline(item[0] ?? "") : blocks(item, depth + 1)}</li>`);
  return [`<${tag}>${inner.join("")}</${tag}>`, at - from];
}

function table(rows: string[]): string {
  const cells = (row: string): string[] => row.trim().slice(1, -1).split("|").map((cell) => cell.trim());
  const line = (row: string, tag: string): string => `<tr>${cells(row).map((cell) => `<${tag}>${inline(cell)}</${tag}>`).join("")}</tr>`;
  const [head = "", , ...body] = rows;
  return `<div class="wide"><table><thead>${line(head, "th")}</thead><tbody>${body.map((row) => line(row, "td")).join("")}</tbody></table></div>`;
}

const SPANS = /(`+)([^`]|[^`][^]*?[^`])\1(?!`)|(!?)\[([^\][]*)\]\(\s*<?([^\s)>]+)>?[^)]*\)|\*\*([^*\n]+)\*\*|__([^_\n]+)__|\*([^*\n]+)\*|(https?:\/\/[^\s<>"')\]]+)/g;

function inline(text: string): string {
  let out = "";
  let at = 0;
  for (const match of text.matchAll(SPANS)) {
    const [whole, , code, image, label, target, strong, strong2, emphasis, bare] = match;
    out += escaped(text.slice(at, match.index));
    at = match.index + whole.length;
    if (code !== undefined) out += `<code>${escaped(code.trim())}</code>`;
    else if (target !== undefined) out += link(target, label || (image ? "image" : target));
    else if (strong !== undefined || strong2 !== undefined) out += `<strong>${escaped(strong ?? strong2 ?? "")}</strong>`;
    else if (emphasis !== undefined) out += `<em>${escaped(emphasis)}</em>`;
    else if (bare !== undefined) out += link(bare, bare);
  }
  return out + escaped(text.slice(at));
}

/** Only addresses of the web and of mail are links; a path inside the repository leads nowhere from here. */
export function link(target: string, label: string): string {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return escaped(label);
  return `<a href="${escaped(target)}" rel="nofollow noopener ugc">${escaped(label)}</a>`;
}
