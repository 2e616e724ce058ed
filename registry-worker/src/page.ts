/** The pages for people: all plugins, one plugin. No script, no cookie, nothing from elsewhere. */
import { Html, html } from "./html";
import { link, markdown } from "./markdown";
import type { Package } from "./packages";
import type { Revoked, VersionRecord } from "./schema";
import { type Found, PAGE, type Summary } from "./search";
import { parts } from "./signature";
import { ICON, LOGO, STYLE } from "./style";

export interface Rendered {
  body: string;
  headers: Record<string, string>;
}

let policy: Promise<string> | undefined;

/** The style's hash stands in the policy, so nothing else on the page can be one. */
async function contentPolicy(): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(STYLE));
  const hash = btoa(String.fromCharCode(...new Uint8Array(digest)));
  return (
    `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; form-action 'self'; base-uri 'none'; ` +
    "frame-ancestors 'none'"
  );
}

async function page(title: string, query: string, main: Html): Promise<Rendered> {
  const body = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="${ICON}">
<style>${new Html(STYLE)}</style>
</head>
<body>
<header>
<a class="brand" href="/">${new Html(LOGO)}<span>Lumia <em>plugins</em></span></a>
<form role="search" action="/">
<input type="search" name="q" value="${query}" placeholder="Search plugins" aria-label="Search plugins" maxlength="200" autocomplete="off">
<button>Search</button>
</form>
</header>
<main>
${main}
</main>
<footer>Only names and addresses are kept here; the code stays in its repositories, and <code>pkg</code> checks what it
fetches. <a href="/search?q=">JSON</a> <a href="/revoked">Revoked</a> <a href="/health">Health</a></footer>
</body>
</html>
`;
  policy ??= contentPolicy();
  return { body: body.text, headers: { "Content-Security-Policy": await policy } };
}

export async function browse(text: string, number: number, { plugins, total, close }: Found): Promise<Rendered> {
  const main = html`${text === "" && number === 1 && hero(total)}
<p class="count" role="status">${counted(text, total, close, plugins.length)}</p>
<ol class="cards">${plugins.map(card)}</ol>
${pager(text, number, total)}`;
  return page(text === "" ? "Lumia plugins" : `${text} – Lumia plugins`, text, main);
}

function hero(total: number): Html {
  return html`<section class="hero">
<h1>Teach your bot something new</h1>
<p>${plural(total, "plugin")} for Lumia, each installed on a running bot with one command:</p>
<pre class="command"><code>pkg -S <i>name</i></code></pre>
</section>`;
}

function counted(text: string, total: number, close: boolean, here: number): Html {
  if (text === "") return html`All, most starred first`;
  if (total === 0) return html`Nothing found for <b>${text}</b>. Try fewer or other words.`;
  if (close) return html`Nothing has the words <b>${text}</b>; ${here === 1 ? "this comes" : "these come"} close:`;
  return html`${plural(total, "plugin")} for <b>${text}</b>`;
}

function plural(count: number, word: string): string {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

function card({ name, display_name, description, author, latest_tag, stars }: Summary): Html {
  return html`<li class="card"><a href="/plugins/${name}">
<h2>${display_name || name}</h2>
<p class="name"><code>${name}</code> <span class="tag">${latest_tag}</span></p>
<p class="about">${description || "No description."}</p>
<p class="by"><span>${author}</span>${stars > 0 && starred(stars)}</p>
</a></li>`;
}

function starred(stars: number): Html {
  const short = stars >= 1000 ? `${(stars / 1000).toFixed(1)}k` : String(stars);
  return html`<span class="stars" title="${plural(stars, "star")}">★ ${short}</span>`;
}

function pager(text: string, number: number, total: number): Html {
  const last = Math.ceil(total / PAGE);
  if (last <= 1) return html``;
  const to = (page: number): string => `/?${new URLSearchParams({ ...(text === "" ? {} : { q: text }), page: String(page) })}`;
  return html`<nav class="pager" aria-label="Pages">
${number > 1 ? html`<a rel="prev" href="${to(number - 1)}">← Previous</a>` : html`<span></span>`}
<span>Page ${number} of ${last}</span>
${number < last ? html`<a rel="next" href="${to(number + 1)}">Next →</a>` : html`<span></span>`}
</nav>`;
}

export async function missing(name: string): Promise<Rendered> {
  const main = html`<section class="hero"><h1>No plugin of this name</h1><p>There is no <code>${name.slice(0, 64)}</code> here.
<a href="/?${new URLSearchParams({ q: name.slice(0, 64) }).toString()}">Search for it</a></p></section>`;
  return page("Not found – Lumia plugins", "", main);
}

export async function detail(plugin: Package, revoked: Revoked): Promise<Rendered> {
  const { name, manifest, latest_tag, readme_md, versions, stars } = plugin;
  const title = manifest.display_name || name;
  const main = html`<article class="plugin">
<div class="top">
<h1>${title}</h1>
<p class="name"><code>${name}</code> <span class="tag">${latest_tag}</span> ${stars > 0 && starred(stars)}</p>
<p class="lead">${manifest.description}</p>
<pre class="command"><code>pkg -S ${name}</code></pre>
</div>
<aside>${facts(plugin)}</aside>
<section class="readme">${readme_md.trim() === "" ? html`<p class="quiet">No README.</p>` : markdown(readme_md)}</section>
<section class="versions"><h2>Versions</h2><ol>${versions.map((one) => release(name, one, revoked))}</ol></section>
</article>`;
  return page(`${title} – Lumia plugins`, "", main);
}

function facts({ manifest, git_url, versions }: Package): Html {
  const list = (value: unknown): string => (Array.isArray(value) ? value.join(", ") : "");
  const table = (value: unknown): string =>
    Object.entries((value ?? {}) as Record<string, string>)
      .map(([key, range]) => `${key} ${range}`.trim())
      .join(", ");
  const repository = new Html(link(git_url, git_url.replace(/^https?:\/\//, "").replace(/\.git$/, "")));
  const rows: [string, string | Html][] = [
    ["Repository", repository],
    ["Author", manifest.author ?? ""],
    ["Licence", manifest.license ?? ""],
    ["Released", versions[0] === undefined ? "" : versions[0].date.slice(0, 10)],
    ["Needs Lumia", typeof manifest.min_core_version === "string" ? `${manifest.min_core_version} or newer` : ""],
    ["Needs plugins", table(manifest.dependencies)],
    ["Python packages", list(manifest.python_dependencies)],
    ["Provides", list(manifest.provides)],
    ["Asks for", list(manifest.permissions)],
    ["Runs", manifest.isolation === "process" ? "in a process of its own" : ""],
    ["Source", manifest.closed_source === true ? "closed (bytecode only)" : ""],
  ];
  const shown = rows.filter(([, value]) => (value instanceof Html ? value.text : value) !== "");
  return html`<dl>${shown.map(([term, value]) => html`<dt>${term}</dt><dd>${value}</dd>`)}</dl>`;
}

function release(name: string, version: VersionRecord, revoked: Revoked): Html {
  const { tag, date, changelog, commit, signature, yanked } = version;
  const bad = revoked.versions.find((one) => one.name === name && one.tag === tag);
  const key = signature === null ? null : parts(signature);
  const badKey = revoked.keys.find(({ fingerprint }) => fingerprint === key?.fingerprint);
  const warning = bad?.reason ?? badKey?.reason ?? yanked;
  const word = bad !== undefined || badKey !== undefined ? "revoked" : "yanked";
  return html`<li class="${warning == null ? "" : "bad"}">
<p><b>${tag}</b> <time datetime="${date}">${date.slice(0, 10)}</time> <code title="${commit}">${commit.slice(0, 10)}</code>
${key !== null && html`<span class="signed" title="Key ${key.fingerprint}">signed</span>`}
${warning != null && html`<span class="warning">${word}: ${warning}</span>`}</p>
${changelog.trim() !== "" && html`<details><summary>Changes</summary>${markdown(changelog)}</details>`}
</li>`;
}

