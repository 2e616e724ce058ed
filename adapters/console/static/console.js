// The console: one chat at a time over one WebSocket. Handmade, no framework, no request to anybody else.
import { Attachments, pictures } from "./files.js";
import { Trace, element } from "./trace.js";

const $ = (id) => document.getElementById(id);
const PAGE = 4000;
const memory = {
  get(key, fallback) { try { return JSON.parse(localStorage.getItem(`lumia.${key}`)) ?? fallback; } catch { return fallback; } },
  set(key, value) { try { localStorage.setItem(`lumia.${key}`, JSON.stringify(value)); } catch { /* private window: nothing is kept */ } },
};
const sameChat = (one, other) => one && other && one.kind === other.kind && one.id === other.id;
const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const state = {
  bot: "Lumia", maxText: 32000, chats: memory.get("groups", []), fresh: new Set(), chat: memory.get("chat", null),
  sender: memory.get("sender", "you"), views: new Map(), traces: new Map(), outbox: new Map(), runs: new Map(), stages: [],
};

// ---- the connection -------------------------------------------------------------------------------------------------

const link = { socket: null, attempts: 0, timer: 0, heard: 0 };

function connect() {
  clearTimeout(link.timer);
  show("connecting", "connecting…");
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/console/ws`);
  link.socket = socket;
  socket.onmessage = (event) => { link.heard = Date.now(); receive(JSON.parse(event.data)); };
  socket.onclose = (event) => { if (link.socket === socket) closed(event); };
}

function closed(event) {
  link.socket = null;
  if (event.code === 4401 || event.code === 4403) { location.reload(); return; }
  if (event.code === 1009) dropTooLarge();
  const wait = Math.min(15000, 400 * 2 ** link.attempts) * (0.7 + 0.6 * Math.random());
  link.attempts += 1;
  show("offline", `reconnecting in ${Math.max(1, Math.round(wait / 1000))} s`);
  for (const message of state.outbox.values()) message.trace.waiting("waiting for the connection …");
  link.timer = setTimeout(connect, wait);
}

function dropTooLarge() {
  for (const [id, message] of state.outbox) if (message.text.length > 100000) refuse(id, "the message is too large");
}

function transmit(frame) {
  if (link.socket?.readyState === WebSocket.OPEN) link.socket.send(JSON.stringify(frame));
}

function show(name, words) {
  $("status").dataset.state = name;
  $("status").textContent = words;
}

setInterval(() => {
  if (!link.socket || link.socket.readyState !== WebSocket.OPEN) return;
  if (Date.now() - link.heard > 45000) link.socket.close(); else transmit({ type: "ping" });
}, 20000);
addEventListener("online", () => { if (!link.socket) connect(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden && !link.socket) connect(); });

function receive(frame) {
  const handlers = { ready, history, message, ack, progress, trace: settle, activity, error: problem, pong() {} };
  handlers[frame.type]?.(frame);
}

function ready(frame) {
  link.attempts = 0;
  show("online", "connected");
  state.bot = frame.bot;
  state.maxText = frame.max_text;
  attachments.limit = frame.max_file;
  $("bot-name").textContent = frame.bot;
  $("logout").hidden = !frame.guarded;
  document.title = `${frame.bot} console`;
  for (const chat of frame.chats) addChat(chat);
  openChat(state.chat ?? { kind: "private", id: state.sender });
  for (const sent of state.outbox.values()) push(sent);
}

// ---- chats ----------------------------------------------------------------------------------------------------------

function addChat(chat) {
  if (!state.chats.some((known) => sameChat(known, chat))) state.chats.push({ kind: chat.kind, id: chat.id });
}

function openChat(chat) {
  if (chat.kind === "group") addChat(chat);
  state.chat = chat;
  state.fresh.delete(`${chat.kind} ${chat.id}`);
  memory.set("chat", chat);
  memory.set("groups", state.chats.filter((known) => known.kind === "group").slice(-100));
  state.views = new Map();
  $("messages").replaceChildren();
  $("welcome").hidden = true;
  for (const sent of state.outbox.values()) if (sameChat(sent.chat, chat)) place(itemOf(sent));
  heading();
  listChats();
  transmit({ type: "open", chat });
  menu(false);
}

function heading() {
  const group = state.chat.kind === "group";
  $("title").textContent = group ? state.chat.id : `${state.chat.id} and ${state.bot}`;
  $("subtitle").textContent = group ? `Group · one conversation for everybody in it` : "Private chat · every message is for the bot";
  $("text").placeholder = group ? `Message ${state.chat.id}, or @${state.bot} …` : `Message ${state.bot} …`;
}

function listChats() {
  const mine = { kind: "private", id: state.sender };
  const privates = state.chats.filter((chat) => chat.kind === "private" && !sameChat(chat, mine));
  if (state.chat.kind === "private" && ![mine, ...privates].some((chat) => sameChat(chat, state.chat))) privates.push(state.chat);
  const groups = state.chats.filter((chat) => chat.kind === "group");
  $("chats").replaceChildren(...[mine, ...groups, ...privates].map(chatButton));
}

function chatButton(chat) {
  const fresh = state.fresh.has(`${chat.kind} ${chat.id}`);
  const button = element("button", { type: "button", "aria-current": String(sameChat(chat, state.chat)) },
    element("span", { class: "sign", "aria-hidden": "true" }, chat.kind === "group" ? "#" : "@"),
    element("span", { class: "name" }, chat.kind === "group" ? chat.id : `${chat.id} and ${state.bot}`),
    fresh ? element("span", { class: "fresh", role: "img", "aria-label": "new messages" }) : null);
  button.addEventListener("click", () => { openChat(chat); $("text").focus(); });
  return element("li", {}, button);
}

function activity(frame) {
  addChat(frame.chat);
  state.fresh.add(`${frame.chat.kind} ${frame.chat.id}`);
  listChats();
}

// ---- messages -------------------------------------------------------------------------------------------------------

const itemOf = (sent) => ({ id: sent.message_id, from: "user", sender: sent.sender, text: sent.text, media: sent.media, time: sent.time, run_id: "" });

function history(frame) {
  if (!sameChat(frame.chat, state.chat)) return;
  state.stages = frame.stages;
  for (const item of frame.items) place(item);
  for (const item of frame.items.filter((told) => told.from === "user" && told.run_id).slice(-30)) {
    transmit({ type: "trace", run_id: item.run_id });
  }
  welcome();
  scrollToEnd();
}

function message(frame) {
  if (sameChat(frame.chat, state.chat)) place(frame.item);
}

function place(item) {
  const atEnd = nearEnd();
  const known = state.views.get(item.id);
  const focused = known?.node.contains(document.activeElement) ? document.activeElement : null;
  if (known) known.node.remove();
  const view = known ?? draw(item);
  view.time = item.time;
  view.node.querySelector("time")?.replaceWith(clock(item.time));
  state.views.set(item.id, view);
  const after = [...$("messages").children].findLast((node) => node.view.time <= item.time);
  if (after) after.after(view.node); else $("messages").prepend(view.node);
  focused?.focus({ preventScroll: true });
  if (item.run_id && item.from === "user") follow(item.run_id, view.trace);
  welcome();
  if (atEnd || item.from === "user") scrollToEnd(); else $("to-end").hidden = false;
}

function draw(item) {
  const node = element("li", { class: item.from === "bot" ? "bot" : "user" }, avatar(item),
    element("p", { class: "who" }, element("strong", {}, item.sender || "?"), clock(item.time)));
  const bubble = element("div", { class: "bubble", dir: "auto" });
  node.append(bubble);
  fill(node, bubble, item.text);
  if (item.media?.length) bubble.append(pictures(item.media));
  const view = { node, time: item.time, trace: null };
  node.view = view;
  if (item.from === "user") {
    view.trace = state.outbox.get(item.id)?.trace ?? new Trace();
    if (!state.outbox.has(item.id) && !item.run_id) view.trace.waiting("said earlier");
    node.classList.toggle("unsent", state.outbox.has(item.id));
    node.append(view.trace.node);
  }
  return view;
}

function fill(node, bubble, text) {
  bubble.textContent = text.length > PAGE ? text.slice(0, PAGE) : text;
  if (text.length <= PAGE) return;
  bubble.classList.add("cut");
  const more = element("button", { type: "button", class: "more" }, `Show all ${text.length.toLocaleString()} characters`);
  more.addEventListener("click", () => { bubble.firstChild.textContent = text; bubble.classList.remove("cut"); more.remove(); });
  node.append(more);
}

function avatar(item) {
  if (item.from === "bot") return element("span", { class: "avatar", "aria-hidden": "true" }, element("img", { src: "/console/static/icon.svg", alt: "" }));
  return element("span", { class: "avatar", "aria-hidden": "true" }, [...(item.sender || "?")][0].toUpperCase());
}

function clock(seconds) {
  const moment = new Date(seconds * 1000);
  const today = moment.toDateString() === new Date().toDateString();
  const words = today ? moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : moment.toLocaleString([], { dateStyle: "short", timeStyle: "short" });
  return element("time", { datetime: moment.toISOString() }, words);
}

function welcome() {
  const empty = state.views.size === 0;
  $("welcome").hidden = !empty;
  if (!empty) return;
  const group = state.chat?.kind === "group";
  $("welcome-title").textContent = group ? `Group ${state.chat.id}` : `Say hello to ${state.bot}`;
  $("welcome-text").textContent = group ? `Everybody who writes here shares one conversation; @${state.bot} names the bot.` : "Each message shows the stages it went through, and why there was no answer if there was none.";
  const call = group ? `@${state.bot} ` : "";
  const ideas = [`${call}Hello!`, `${call}What are you?`, `${call}My favourite tea is oolong.`];
  $("suggestions").replaceChildren(...ideas.map((idea) => {
    const button = element("button", { type: "button" }, idea);
    button.addEventListener("click", () => say(idea));
    return button;
  }));
}

const nearEnd = () => $("scroller").scrollHeight - $("scroller").scrollTop - $("scroller").clientHeight < 120;
function scrollToEnd() { $("to-end").hidden = true; requestAnimationFrame(() => { $("scroller").scrollTop = $("scroller").scrollHeight; }); }

// ---- sending --------------------------------------------------------------------------------------------------------

function say(text, media = []) {
  if (!text.trim() && !media.length) return;
  if (text.length > state.maxText) { notice(`That is ${text.length.toLocaleString()} characters; up to ${state.maxText.toLocaleString()} fit in one message.`); return; }
  notice("");
  addChat(state.chat);
  const sent = { message_id: newId(), chat: state.chat, sender: state.sender, text, media, time: Date.now() / 1000, trace: new Trace() };
  state.outbox.set(sent.message_id, sent);
  place(itemOf(sent));
  if (link.socket?.readyState === WebSocket.OPEN) push(sent); else sent.trace.waiting("waiting for the connection …");
  listChats();
}

function push(sent) {
  transmit({ type: "send", chat: sent.chat, message_id: sent.message_id, sender: sent.sender, text: sent.text, media: sent.media.map(({ digest, name }) => ({ digest, name })) });
}

function ack(frame) {
  const sent = state.outbox.get(frame.message_id);
  if (!sent) return;
  state.outbox.delete(frame.message_id);
  state.views.get(frame.message_id)?.node.classList.remove("unsent");
  sent.trace.accepted(frame.run_id, frame.stages);
  follow(frame.run_id, sent.trace);
}

function problem(frame) {
  if (!frame.message_id) { notice(frame.error); return; }
  const sent = state.outbox.get(frame.message_id);
  if (!sent) return;
  if (!frame.retry) { refuse(frame.message_id, frame.error); return; }
  sent.trace.waiting(`not accepted yet (${frame.error}), trying again …`);
  setTimeout(() => { if (state.outbox.has(frame.message_id)) push(sent); }, 2000);
}

function refuse(id, why) {
  const sent = state.outbox.get(id);
  state.outbox.delete(id);
  state.views.get(id)?.node.remove();
  state.views.delete(id);
  notice(`Not sent: ${why}`);
  if (sent && !$("text").value) { $("text").value = sent.text; attachments.restore(sent.media); grow(); }
  welcome();
}

function notice(words) { $("notice").textContent = words; $("notice").hidden = !words; }

// ---- progress -------------------------------------------------------------------------------------------------------

function follow(runId, trace) {
  if (!trace) return;
  if (!trace.runId) trace.accepted(runId, state.stages);
  const early = state.runs.get(runId);
  state.traces.set(runId, trace);
  if (early) { state.runs.delete(runId); for (const frame of early) receive(frame); }
  typing();
}

// A stage may report before the acknowledgement arrives: keep its frame for the trace that will ask for it.
function later(frame) {
  if (state.runs.size > 50) state.runs.delete(state.runs.keys().next().value);
  state.runs.set(frame.run_id, [...(state.runs.get(frame.run_id) ?? []), frame].slice(-60));
}

function progress(frame) {
  const trace = state.traces.get(frame.run_id);
  if (trace) trace.progress(frame); else later(frame);
  typing();
}

function settle(frame) {
  const trace = state.traces.get(frame.run_id);
  if (trace) trace.settle(frame); else later(frame);
  typing();
}

function typing() {
  const here = [...state.views.values()].map((view) => view.trace).filter((trace) => trace && trace.state === "accepted" && !trace.finished);
  const open = here[0];
  $("typing").hidden = !open;
  $("typing-text").textContent = open ? `${state.bot} is at it${open.running ? `: ${open.running}` : ""}` : "";
}

// ---- the page itself ------------------------------------------------------------------------------------------------

function grow() {
  const box = $("text");
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight}px`;
  const left = state.maxText - box.value.length;
  $("count").textContent = left < 2000 ? ` · ${left.toLocaleString()} characters left` : "";
  $("send").disabled = !box.value.trim() && !attachments.items.length;
}

function menu(open) {
  $("app").classList.toggle("menu", open);
  $("veil").hidden = !open;
  $("open-menu").setAttribute("aria-expanded", String(open));
}

function theme(name) {
  if (name) document.documentElement.dataset.theme = name; else delete document.documentElement.dataset.theme;
  $("theme").textContent = name === "dark" ? "Theme: dark" : name === "light" ? "Theme: light" : "Theme: system";
  memory.set("theme", name);
}

let held = false;
$("composer").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (held) return;
  held = true;
  const whole = await attachments.settled();
  held = false;
  if (!whole) return; // the notice says which file is missing; the words stay
  const text = $("text").value;
  if (text.length > state.maxText) { say(text); return; }
  const media = attachments.take();
  $("text").value = "";
  grow();
  say(text, media);
});
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("composer").requestSubmit();
});
$("text").addEventListener("input", grow);

const attachments = new Attachments($("attached"), { changed: grow, problem: notice });
$("attach").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => { attachments.add($("file").files); $("file").value = ""; $("text").focus(); });
$("text").addEventListener("paste", (event) => {
  if (!event.clipboardData.files.length) return;
  event.preventDefault();
  attachments.add(event.clipboardData.files);
});
addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) { event.preventDefault(); $("composer").classList.add("over"); } });
addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("composer").classList.remove("over"); });
addEventListener("drop", (event) => {
  $("composer").classList.remove("over");
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  attachments.add(event.dataTransfer.files);
  $("text").focus();
});
$("sender").value = state.sender;
$("sender").addEventListener("change", () => {
  const before = { kind: "private", id: state.sender };
  state.sender = $("sender").value.trim() || "you";
  $("sender").value = state.sender;
  memory.set("sender", state.sender);
  if (sameChat(state.chat, before)) openChat({ kind: "private", id: state.sender }); else listChats();
});
$("identity").addEventListener("submit", (event) => { event.preventDefault(); $("sender").blur(); $("text").focus(); });
$("new-group").addEventListener("click", () => { $("group-name").value = ""; $("group-dialog").showModal(); });
$("group-cancel").addEventListener("click", () => $("group-dialog").close());
$("group-form").addEventListener("submit", () => {
  const name = $("group-name").value.trim();
  if (name) { openChat({ kind: "group", id: name }); $("text").focus(); }
});
$("open-menu").addEventListener("click", () => { menu(true); $("close-menu").focus(); });
$("close-menu").addEventListener("click", () => menu(false));
$("veil").addEventListener("click", () => menu(false));
addEventListener("keydown", (event) => { if (event.key === "Escape") menu(false); });
$("theme").addEventListener("click", () => {
  const order = ["", "light", "dark"];
  theme(order[(order.indexOf(document.documentElement.dataset.theme ?? "") + 1) % 3]);
});
$("scroller").addEventListener("scroll", () => { if (nearEnd()) $("to-end").hidden = true; });
$("to-end").addEventListener("click", scrollToEnd);

theme(memory.get("theme", ""));
grow();
connect();
