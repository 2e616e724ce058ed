/** HTML by template strings that escape what is put into them. */

export class Html {
  constructor(readonly text: string) {}
}

type Part = string | number | Html | null | undefined | false | readonly Part[];

/** A terminal's escape sequences as a whole, or what is left of them would be read: colours, titles, links. */
const ESCAPES =
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]?|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]?/g;
/** No control characters, and none that turn the direction of what follows. */
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export function escaped(text: string): string {
  return text.replace(ESCAPES, "").replace(UNSEEN, "").replace(/[&<>"']/g, (letter) => ENTITIES[letter] ?? letter);
}

function rendered(part: Part): string {
  if (part === null || part === undefined || part === false) return "";
  if (part instanceof Html) return part.text;
  if (typeof part === "object") return part.map(rendered).join("");
  return escaped(String(part));
}

export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  return new Html(strings.reduce((text, string, index) => `${text}${rendered(parts[index - 1])}${string}`));
}
