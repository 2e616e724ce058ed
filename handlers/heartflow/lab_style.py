"""Style and script of the lab's pages."""

from __future__ import annotations

STYLE = """
:root { --ground:#f4f6f8; --card:#fff; --ink:#1b1f24; --soft:#5d6875; --line:#d8dee4; --engage:#1f7a4d;
  --silent:#8a95a1;
  --wrong:#b3261e; --bot:#dcefe3; --in:#3b6ea5; --out:#c77d2b; --light:38%; color-scheme: light dark }
@media (prefers-color-scheme: dark) {
  :root { --ground:#111418; --card:#1b2026; --ink:#e8eaed; --soft:#9aa5b1; --line:#313841; --engage:#5cc08d;
  --silent:#77828e;
    --wrong:#ff8a80; --bot:#1d3a2b; --in:#7fb2e5; --out:#e0a35c; --light:70% }
}
* { box-sizing:border-box }
body { margin:0 auto; max-width:62rem; padding:1rem; background:var(--ground); color:var(--ink);
  font:16px/1.5 system-ui, sans-serif; overflow-wrap:anywhere }
h1 { font-size:1.3rem; margin:0 } header p, .facts, time, small { color:var(--soft) } header p { margin:.2rem 0 1rem }
.figures { display:grid; grid-template-columns:repeat(auto-fill, minmax(8.5rem, 1fr)); gap:.5rem }
.figures div { background:var(--card); border:1px solid var(--line); border-radius:8px; padding:.5rem .7rem }
.figures b { display:block; font-size:1.25rem } .figures span { color:var(--soft); font-size:.8rem }
.charts { display:grid; grid-template-columns:repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap:.5rem;
  margin:.5rem 0 }
svg { width:100%; background:var(--card); border:1px solid var(--line); border-radius:8px; padding:.5rem }
svg text { fill:var(--ink); font-size:13px } svg .title { font-weight:600 } svg .name { text-anchor:end }
rect.engage { fill:var(--engage) } rect.silent { fill:var(--silent) } rect.in { fill:var(--in) }
  rect.out { fill:var(--out) }
nav { position:sticky; top:0; display:flex; flex-wrap:wrap; gap:.4rem; padding:.6rem 0; background:var(--ground);
  z-index:1 }
button { font:inherit; color:inherit; background:var(--card); border:1px solid var(--line); border-radius:1rem;
  padding:.2rem .8rem; cursor:pointer; min-height:2.2rem }
button[aria-pressed=true] { background:var(--ink); color:var(--ground) }
h2 { font-size:1rem; margin:1.2rem 0 .2rem } .day { text-align:center; color:var(--soft); font-size:.8rem;
  margin:.8rem 0 }
article { margin:.35rem 0; padding:.5rem .7rem; background:var(--card); border:1px solid var(--line);
  border-radius:8px;
  border-left:4px solid var(--line) }
article[data-decision=engage] { border-left-color:var(--engage) }
  article[data-wrong="1"] { border-left-color:var(--wrong) }
.said b { color:hsl(var(--hue, 210) 55% var(--light)) } .said time { font-size:.75rem }
.said p, .bot { margin:.1rem 0; white-space:pre-wrap } .quote { color:var(--soft); font-size:.85rem }
.bot { margin:.4rem 0 0 auto; width:fit-content; max-width:85%; background:var(--bot); border-radius:8px;
  padding:.4rem .7rem }
.bot b { display:block; font-size:.75rem; color:var(--soft) }
details { font-size:.85rem } summary { cursor:pointer; color:var(--soft) } summary b { color:var(--ink) }
.chip, .mark { border-radius:.6rem; padding:0 .45rem; color:var(--card); background:var(--silent) }
[data-decision=engage] .chip { background:var(--engage) } .mark { background:var(--wrong); margin-right:.3rem }
.label { color:var(--wrong) } .wide { overflow-x:auto } table { border-collapse:collapse; font-size:.85rem }
td, th { border-top:1px solid var(--line); padding:.15rem .6rem .15rem 0; text-align:left; vertical-align:top }
td:not(:last-child), th { white-space:nowrap }
.sides p { margin:.2rem 0; font-size:.9rem }
#chat[data-show=wrong] article:not([data-wrong="1"]), #chat[data-show=answered] article:not([data-answered="1"]),
#chat[data-show=silent] article:not([data-decision=silent]) { display:none }
#chat:not([data-show=every]) .day { display:none } .none { display:none; color:var(--soft) }
#chat[data-empty] .none { display:block }
"""

SCRIPT = """
const chat = document.getElementById("chat"), buttons = [...document.querySelectorAll("button[data-filter]")];
for (const button of buttons) button.addEventListener("click", () => {
  chat.dataset.show = button.dataset.filter;
  for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
  chat.toggleAttribute("data-empty", ![...chat.querySelectorAll("article")].some(one => one.offsetParent));
});
"""
