/**
 * A README as HTML: headings, paragraphs, lists, quotes, code, tables, rules, links and emphasis. Raw HTML is shown as
 * text and images become links, so nothing is fetched and nothing runs; everything passes through `escaped`.
 */
import { escaped, Html } from "./html";

const MOST = 100_000;
/** Characters of one line; what is longer goes on in a line of its own. */
const LONGEST = 5_000;

/**
 * Takes time linear in the length of `source`, which a stranger wrote: no pattern here has two neighbouring quantifiers
 * that can take the same character, and none reads on past a mark at which it would be tried again.
 */
export function markdown(source: string): Html {
  const lines = source.slice(0, MOST).split(/\r\n?|[\n\u2028\u2029]/);
  return new Html(blocks(lines.flatMap(cut), 0));
}

function cut(line: string): string[] {
  return line.length <= LONGEST ? [line] : (line.match(PIECE) ?? []);
}

const PIECE = new RegExp(`[^]{1,${LONGEST / 2}}`, "gu");
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HASHES = /^ {0,3}(#{1,6})\s/;
const BULLET = /^ {0,3}([-*+]|\d{1,9}[.)])\s/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DEEPEST = 6;

function headingIn(line: string): { level: number; text: string } | null {
  const match = HASHES.exec(line);
  if (match === null) return null;
  const text = line.slice(match[0].length).trim();
  let end = text.length;
  while (text[end - 1] === "#") end -= 1;
  const closed = end === 0 || /\s/.test(text[end - 1] ?? "");
  return { level: match[1]?.length ?? 1, text: closed ? text.slice(0, end).trimEnd() : text };
}

function itemIn(line: string): { ordered: boolean; text: string } | null {
  const match = BULLET.exec(line);
  return match === null ? null : { ordered: /^\d/.test(match[1] ?? ""), text: line.slice(match[0].length).trimStart() };
}

function isRule(line: string): boolean {
  return /^ {0,3}[-*_]/.test(line) && /^([-*_])\1{2,}$/.test(line.replace(/\s+/g, ""));
}

function isRow(line: string): boolean {
  const text = line.trim();
  return text.length > 1 && text.startsWith("|") && text.endsWith("|");
}

function blocks(lines: string[], depth: number): string {
  const out: string[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const fence = FENCE.exec(line);
    const heading = headingIn(line);
    if (line.trim() === "") {
      at += 1;
    } else if (fence !== null) {
      const mark = fence[1] ?? "```";
      let end = at + 1;
      while (end < lines.length && !(lines[end] ?? "").trimStart().startsWith(mark)) end += 1;
      out.push(`<pre><code>${escaped(lines.slice(at + 1, end).join("\n"))}</code></pre>`);
      at = end + 1;
    } else if (heading !== null) {
      const level = Math.min(6, heading.level + 1);
      out.push(`<h${level}>${inline(heading.text)}</h${level}>`);
      at += 1;
    } else if (isRule(line)) {
      out.push("<hr>");
      at += 1;
    } else if (depth < DEEPEST && QUOTE.test(line)) {
      const quoted = taken(lines, at, (text) => QUOTE.test(text));
      out.push(`<blockquote>${blocks(quoted.map((text) => QUOTE.exec(text)?.[1] ?? ""), depth + 1)}</blockquote>`);
      at += quoted.length;
    } else if (depth < DEEPEST && BULLET.test(line)) {
      const [text, used] = list(lines, at, depth);
      out.push(text);
      at += used;
    } else if (isRow(line) && /^[\s|:-]+$/.test(lines[at + 1] ?? "")) {
      const rows = taken(lines, at, isRow);
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
    line.trim() === "" || FENCE.test(line) || HASHES.test(line) || QUOTE.test(line) || BULLET.test(line);
  let end = from + 1;
  while (end < lines.length && !starts(lines[end] ?? "")) end += 1;
  return lines.slice(from, end);
}

function list(lines: string[], from: number, depth: number): [string, number] {
  const ordered = itemIn(lines[from] ?? "")?.ordered ?? false;
  const items: string[][] = [];
  let at = from;
  for (; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const item = itemIn(line);
    if (item?.ordered === ordered) items.push([item.text]);
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

const SPANS =
  /(`+)|(!?)\[([^\][]{0,500})\]\(\s{0,9}<?([^\s)>[]{1,2000})>?(?:\s[^)[]{0,300})?\)|\*\*([^*\n]+)\*\*|__([^_\n]+)__|\*([^*\n]+)\*|(https?:\/\/[^\s<>"')\]]+)/g;

function inline(text: string): string {
  const ends = codeEnds(text);
  let out = "";
  let at = 0;
  SPANS.lastIndex = 0;
  for (let match = SPANS.exec(text); match !== null; match = SPANS.exec(text)) {
    const [whole, ticks, image, label, target, strong, strong2, emphasis, bare] = match;
    out += escaped(text.slice(at, match.index));
    at = match.index + whole.length;
    if (ticks !== undefined) {
      const end = ends.get(match.index);
      if (end === undefined) out += ticks;
      else {
        out += `<code>${escaped(text.slice(at, end).trim())}</code>`;
        at = end + ticks.length;
        SPANS.lastIndex = at;
      }
    } else if (target !== undefined) out += link(target, label || (image ? "image" : target));
    else if (strong !== undefined || strong2 !== undefined) out += `<strong>${escaped(strong ?? strong2 ?? "")}</strong>`;
    else if (emphasis !== undefined) out += `<em>${escaped(emphasis)}</em>`;
    else if (bare !== undefined) out += link(bare, bare);
  }
  return out + escaped(text.slice(at));
}

/** Where code ends: start of a run of backticks → start of the next run as long, found once for the whole text. */
function codeEnds(text: string): Map<number, number> {
  const ends = new Map<number, number>();
  const next = new Map<number, number>();
  for (const { index, 0: run } of [...text.matchAll(/`+/g)].reverse()) {
    const end = next.get(run.length);
    if (end !== undefined) ends.set(index, end);
    next.set(run.length, index);
  }
  return ends;
}

/** Only addresses of the web and of mail are links; a path inside the repository leads nowhere from here. */
export function link(target: string, label: string): string {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return escaped(label);
  return `<a href="${escaped(target)}" rel="nofollow noopener ugc">${escaped(label)}</a>`;
}
