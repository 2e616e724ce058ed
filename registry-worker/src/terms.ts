/**
 * Text cut into words for the index and for a search. `lumia/registry/terms.py` cuts the same way; both are tested
 * with test/vectors/terms.json.
 *
 * Chinese and Japanese put no spaces between words, so runs of them are indexed by every character and every two
 * neighbours, and searched by two neighbours.
 */

const WORD = /[\p{L}\p{N}]+/gu;
const MARKS = /\p{Mn}/gu;
const DENSE = /[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3\u{20000}-\u{2fa1f}]+/gu;
const MOST_WORDS = 12;
const MOST_PARTS = 12;

function folded(text: string): string {
  return text.normalize("NFKD").replace(MARKS, "").normalize("NFC").toLowerCase();
}

interface Run {
  text: string;
  dense: boolean;
}

function runs(text: string): Run[] {
  const found: Run[] = [];
  for (const [word] of folded(text).matchAll(WORD)) {
    let end = 0;
    for (const match of word.matchAll(DENSE)) {
      if (match.index > end) found.push({ text: word.slice(end, match.index), dense: false });
      found.push({ text: match[0], dense: true });
      end = match.index + match[0].length;
    }
    if (end < word.length) found.push({ text: word.slice(end), dense: false });
  }
  return found;
}

function pairs(text: string): string[] {
  const letters = Array.from(text);
  return letters.slice(1).map((letter, index) => `${letters[index]}${letter}`);
}

/** Return the words of `text` for the index, separated by blanks. */
export function indexed(text: string): string {
  return runs(text)
    .flatMap((run) => (run.dense ? [...Array.from(run.text), ...pairs(run.text)] : [run.text]))
    .join(" ");
}

/** Return a plugin's name for the index: its parts, and all of them in one, as people write it. */
export function indexedName(name: string): string {
  return name.includes("-") ? `${indexed(name)} ${name.replaceAll("-", "")}` : indexed(name);
}

/** Return the FTS5 query for what somebody typed; null when there is no word in it. */
export function asked(text: string): string | null {
  const wanted = runs(text).flatMap((run) => {
    if (!run.dense) return [`"${run.text}"*`];
    const two = pairs(run.text);
    return (two.length ? two : [run.text]).map((part) => `"${part}"`);
  });
  return wanted.length ? wanted.slice(0, MOST_WORDS).join(" ") : null;
}

/** Return the FTS5 query over three-letter parts: any of those of `text`; null when it has none. */
export function askedByParts(text: string): string | null {
  const parts = new Set<string>();
  for (const run of runs(text)) {
    const letters = Array.from(run.text);
    for (let at = 0; at + 3 <= letters.length; at++) parts.add(letters.slice(at, at + 3).join(""));
  }
  const some = [...parts].slice(0, MOST_PARTS).map((part) => `"${part}"`);
  return some.length ? some.join(" OR ") : null;
}

/** Return the name that `text` would be: lower case, with hyphens. */
export function asName(text: string): string {
  return folded(text)
    .trim()
    .replace(/[\s_.-]+/g, "-");
}

/** Return what is left of a name when look-alikes are one: `memory-graph`, `memorygraph` and `mem0rygraph`. */
export function skeleton(name: string): string {
  const alike: Record<string, string> = { "0": "o", "1": "l", i: "l", "5": "s", "2": "z" };
  return name
    .replace(/[-_]/g, "")
    .replace(/rn/g, "m")
    .replace(/vv/g, "w")
    .replace(/[01i52]/g, (letter) => alike[letter] ?? letter);
}
