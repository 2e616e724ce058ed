/** The look of the pages: one style sheet in the page itself, light or dark as the reader's system is. */

export const LOGO =
  '<svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true"><circle class="disc" cx="16" cy="16" r="14"/>' +
  '<path class="moon" d="M20.5 5.6a11 11 0 1 0 6 14.6A9.2 9.2 0 0 1 20.5 5.6z"/></svg>';

export const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Ccircle cx='16' cy='16' r='15' " +
  "fill='%23312e81'/%3E%3Cpath fill='%23fde68a' d='M20.5 5.6a11 11 0 1 0 6 14.6A9.2 9.2 0 0 1 20.5 5.6z'/%3E%3C/svg%3E";

export const STYLE = `
:root {
  --back: #fbfaff; --card: #ffffff; --line: #e4e1f2; --text: #1d1a2f; --quiet: #625d7c; --accent: #4f46e5;
  --soft: #eeecfd; --bad: #b42318; --bad-soft: #fdecea; --good: #14704a; --good-soft: #e3f5ec; --star: #a15c07;
  --disc: #312e81; --moon: #fde68a; --shadow: 0 1px 2px rgb(29 26 47 / 6%), 0 8px 24px -12px rgb(29 26 47 / 18%);
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #12101d; --card: #1b1829; --line: #2f2b45; --text: #ece9f8; --quiet: #a7a1c2; --accent: #a5a0ff;
    --soft: #262140; --bad: #ff9b8f; --bad-soft: #3b1d22; --good: #79d8ab; --good-soft: #17332a; --star: #f3c66d;
    --disc: #3b3780; --shadow: 0 1px 2px rgb(0 0 0 / 40%);
  }
}
* { box-sizing: border-box; }
html { color-scheme: light dark; }
body {
  margin: 0; background: var(--back); color: var(--text); line-height: 1.55;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", sans-serif;
}
a { color: var(--accent); text-underline-offset: .15em; }
a:focus-visible, input:focus-visible, button:focus-visible, summary:focus-visible {
  outline: 2px solid var(--accent); outline-offset: 2px;
}
code, pre { font-family: ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", monospace; font-size: .9em; }
header, main, footer { max-width: 74rem; margin-inline: auto; padding-inline: 1.25rem; }
header { display: flex; gap: 1rem 2rem; align-items: center; flex-wrap: wrap; padding-block: 1.1rem; }
.brand { display: flex; align-items: center; gap: .6rem; font-size: 1.15rem; font-weight: 650; color: var(--text);
  text-decoration: none; letter-spacing: -.01em; }
.brand em { font-style: normal; font-weight: 400; color: var(--quiet); }
.disc { fill: var(--disc); } .moon { fill: var(--moon); }
form { display: flex; flex: 1 1 20rem; gap: .5rem; }
input { flex: 1; min-width: 0; padding: .6rem .9rem; font: inherit; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: .7rem; }
button { padding: .6rem 1.1rem; font: inherit; font-weight: 600; color: var(--back); background: var(--accent); border: 0;
  border-radius: .7rem; cursor: pointer; }
button:hover { filter: brightness(1.08); }
.hero { padding: 2.6rem 0 1.4rem; text-align: center; }
h1 { margin: 0 0 .4rem; font-size: clamp(1.8rem, 4.5vw, 2.7rem); line-height: 1.15; letter-spacing: -.025em; text-wrap: balance; }
.hero p { margin: 0; color: var(--quiet); font-size: 1.05rem; text-wrap: balance; }
.command { display: inline-block; margin: 1.1rem 0 0; padding: .65rem 1.1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .7rem; box-shadow: var(--shadow); font-size: 1rem; user-select: all; max-width: 100%; overflow-x: auto; }
.command::before { content: "$ "; color: var(--quiet); user-select: none; }
.command i { color: var(--accent); }
.count { margin: 1rem 0 .9rem; color: var(--quiet); }
.count b { color: var(--text); overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); gap: 1rem; padding: 0; margin: 0;
  list-style: none; }
.card a { display: flex; flex-direction: column; height: 100%; padding: 1.1rem 1.2rem; color: inherit; text-decoration: none;
  background: var(--card); border: 1px solid var(--line); border-radius: 1rem; box-shadow: var(--shadow);
  transition: border-color .15s, transform .15s; }
.card a:hover { border-color: var(--accent); transform: translateY(-2px); }
@media (prefers-reduced-motion: reduce) { .card a { transition: none; } .card a:hover { transform: none; } }
.card h2 { margin: 0; font-size: 1.1rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
.card p { margin: 0; }
.name { color: var(--quiet); overflow-wrap: anywhere; }
.tag { display: inline-block; padding: .02rem .5rem; border-radius: 1rem; background: var(--soft); color: var(--accent);
  font-size: .8rem; font-weight: 600; }
.card .about { margin: .7rem 0 .9rem; overflow: hidden; display: -webkit-box; -webkit-box-orient: vertical;
  -webkit-line-clamp: 3; overflow-wrap: anywhere; }
.by { display: flex; justify-content: space-between; gap: 1rem; margin-top: auto !important; color: var(--quiet); font-size: .9rem; }
.by > :first-child { min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.stars { color: var(--star); font-weight: 600; white-space: nowrap; }
.pager { display: grid; grid-template-columns: 1fr auto 1fr; gap: 1rem; margin: 2rem 0 0; color: var(--quiet); }
.pager > :last-child { text-align: right; }
.plugin { display: grid; grid-template-columns: minmax(0, 1fr) 19rem; gap: 1.6rem 2.4rem; padding-top: 1.6rem; align-items: start; }
.plugin > * { grid-column: 1; min-width: 0; }
.plugin aside { grid-column: 2; grid-row: 1 / span 3; position: sticky; top: 1rem; }
@media (max-width: 54rem) { .plugin { grid-template-columns: minmax(0, 1fr); } .plugin aside { grid-column: 1; grid-row: auto; position: static; } }
.lead { margin: .7rem 0 0; font-size: 1.12rem; color: var(--quiet); overflow-wrap: anywhere; }
dl { margin: 0; padding: 1.1rem 1.2rem; background: var(--card); border: 1px solid var(--line); border-radius: 1rem;
  box-shadow: var(--shadow); }
dt { color: var(--quiet); font-size: .82rem; } dd { margin: 0 0 .75rem; overflow-wrap: anywhere; } dd:last-child { margin: 0; }
.readme { padding: 1.4rem 1.6rem; background: var(--card); border: 1px solid var(--line); border-radius: 1rem; overflow-wrap: anywhere; }
.readme > :first-child { margin-top: 0; } .readme > :last-child { margin-bottom: 0; }
h2 { letter-spacing: -.015em; line-height: 1.25; }
.readme h2 { font-size: 1.45rem; } .readme h3 { font-size: 1.18rem; } .readme h4, .readme h5, .readme h6 { font-size: 1rem; }
.readme pre, details pre { padding: .9rem 1rem; overflow-x: auto; background: var(--soft); border-radius: .6rem; line-height: 1.45; }
:not(pre) > code { padding: .1em .32em; background: var(--soft); border-radius: .35em; }
.name code { padding: 0; background: none; }
blockquote { margin-inline: 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--quiet); }
hr { border: 0; border-top: 1px solid var(--line); margin: 1.5rem 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .4rem .8rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
.versions ol { list-style: none; margin: 0; padding: 0; }
.versions li { padding: .75rem 0; border-top: 1px solid var(--line); } .versions li > p { margin: 0; }
.versions time, .quiet { color: var(--quiet); } .versions li.bad b { text-decoration: line-through; }
.signed, .warning { display: inline-block; padding: .02rem .5rem; border-radius: 1rem; font-size: .82rem; font-weight: 600; }
.signed { color: var(--good); background: var(--good-soft); } .warning { color: var(--bad); background: var(--bad-soft); }
summary { cursor: pointer; color: var(--quiet); font-size: .92rem; }
footer { margin-top: 3.5rem; padding-block: 1.4rem 2.4rem; color: var(--quiet); font-size: .88rem; border-top: 1px solid var(--line); }
footer a { margin-left: .8rem; white-space: nowrap; }
`;
