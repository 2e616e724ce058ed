/** The plugin registry at the edge (spec §13.1, docs/registry.md): reads from D1, submissions to the index repository. */
import type { Env } from "./env";
import { cacheable, COMMON, conditional, problem, Refusal, refuse } from "./http";
import { browse, detail, missing } from "./page";
import * as packages from "./packages";
import { LAST_PAGE, PAGE, search } from "./search";
import { submit } from "./submit";
import { sync } from "./sync";

const JSON_TYPE = "application/json";
const HTML_TYPE = "text/html; charset=utf-8";
const LONGEST_QUERY = 200;
const NAME = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;

export default {
  async fetch(request, env, context): Promise<Response> {
    try {
      return await route(request, env, context);
    } catch (error) {
      if (error instanceof Refusal) return problem(error.problem);
      console.error("request failed", error instanceof Error ? error.message : "unknown");
      return problem({ status: 500, title: "Failed", detail: "The registry failed; installing by git URL still works." });
    }
  },

  async scheduled(controller, env): Promise<void> {
    const { put, removed, refused, left } = await sync(env, new Date(controller.scheduledTime));
    console.log("index read", JSON.stringify({ put: put.length, removed: removed.length, refused, left }));
  },
} satisfies ExportedHandler<Env>;

async function route(request: Request, env: Env, context: ExecutionContext): Promise<Response> {
  const url = new URL(request.url);
  const address = request.headers.get("CF-Connecting-IP") ?? "unknown";
  const { method } = request;
  if (url.pathname === "/pkg") {
    if (method !== "POST") notAllowed(method, "POST");
    return submit(request, env, address);
  }
  const page = pageFor(url);
  if (page === null) refuse(404, "Not found", "There are /search?q=, /pkg/<name>, /revoked, /health and, to submit, POST /pkg.");
  if (method === "OPTIONS") return preflight();
  if (method !== "GET" && method !== "HEAD") notAllowed(method, "GET, HEAD");
  const { success } = await env.READS.limit({ key: address });
  if (!success) refuse(429, "Too many requests", "Wait a minute, then try again.", { "Retry-After": "60" });
  return conditional(request, await cached(url.origin, page, env, context));
}

function notAllowed(method: string, allowed: string): never {
  return refuse(405, "Method not allowed", `${method} is not for this address; it takes ${allowed}.`, { Allow: allowed });
}

function preflight(): Response {
  const headers = { "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "GET, HEAD" };
  return new Response(null, { status: 204, headers: { ...headers, "Access-Control-Allow-Headers": "If-None-Match" } });
}

/** A page that can be kept. `key`: its address without what doesn't change it. */
interface Page {
  key: string;
  make(env: Env, seconds: number): Promise<Response>;
}

function pageFor(url: URL): Page | null {
  const [, first = "", second, ...more] = url.pathname.split("/");
  if (more.length) return null;
  if (second === undefined) {
    if (first === "search") return asked(url, "/search", found);
    if (first === "") return asked(url, "/", shelves);
    if (first === "revoked") return { key: "/revoked", make: withdrawn };
    if (first === "health") return { key: "/health", make: health };
    return null;
  }
  if (first === "pkg") return { key: `/pkg/${second}`, make: (env, seconds) => one(env, second, seconds) };
  if (first === "plugins") return { key: `/plugins/${second}`, make: (env, seconds) => shown(env, second, seconds) };
  return null;
}

async function cached(origin: string, page: Page, env: Env, context: ExecutionContext): Promise<Response> {
  const seconds = Number(env.CACHE_SECONDS);
  if (!(seconds > 0) || page.key === "/health") return page.make(env, Math.max(0, seconds || 0));
  const key = new Request(`${origin}${page.key}`);
  const known = await caches.default.match(key);
  if (known !== undefined) return known;
  const made = await page.make(env, seconds);
  if (made.ok) context.waitUntil(caches.default.put(key, made.clone()));
  return made;
}

type Answer = (env: Env, text: string, number: number, seconds: number) => Promise<Response>;

function asked(url: URL, path: string, make: Answer): Page {
  const text = (url.searchParams.get("q") ?? "").trim();
  if (text.length > LONGEST_QUERY) refuse(400, "Too long", `A search has at most ${LONGEST_QUERY} characters.`);
  const page = url.searchParams.get("page") ?? "1";
  const number = /^[0-9]{1,6}$/.test(page) ? Number(page) : 0;
  if (number < 1 || number > LAST_PAGE) refuse(400, "No such page", `page is a number from 1 to ${LAST_PAGE}.`);
  const key = `${path}?${new URLSearchParams({ q: text, page: String(number) })}`;
  return { key, make: (env, seconds) => make(env, text, number, seconds) };
}

async function found(env: Env, text: string, number: number, seconds: number): Promise<Response> {
  const { plugins, total } = await search(env.DB, text, number);
  const link = (page: number, rel: string): string =>
    `</search?${new URLSearchParams({ q: text, page: String(page) })}>; rel="${rel}"`;
  const links = [
    ...(number * PAGE < total && number < LAST_PAGE ? [link(number + 1, "next")] : []),
    ...(number > 1 ? [link(number - 1, "prev")] : []),
  ];
  const headers = { "X-Total-Count": String(total), ...(links.length ? { Link: links.join(", ") } : {}) };
  return cacheable(JSON.stringify(plugins), JSON_TYPE, seconds, headers);
}

async function one(env: Env, name: string, seconds: number): Promise<Response> {
  const known = NAME.test(name) ? await packages.read(env.DB, name) : null;
  if (known === null) refuse(404, "No such plugin", `There is no plugin ${JSON.stringify(name)}${await hint(env, name)}`);
  return cacheable(JSON.stringify(known), JSON_TYPE, seconds);
}

async function hint(env: Env, name: string): Promise<string> {
  if (name.length > LONGEST_QUERY) return ".";
  const [close] = (await search(env.DB, name, 1)).plugins;
  return close === undefined ? "." : `; did you mean ${close.name}?`;
}

async function withdrawn(env: Env, seconds: number): Promise<Response> {
  return cacheable(JSON.stringify(await packages.revoked(env.DB)), JSON_TYPE, seconds);
}

async function health(env: Env): Promise<Response> {
  try {
    return await cacheable(JSON.stringify(await packages.health(env.DB)), JSON_TYPE, 0, { "Cache-Control": "no-store" });
  } catch {
    return refuse(503, "Unavailable", "The database can't be read; installing by git URL still works.");
  }
}

async function shelves(env: Env, text: string, number: number, seconds: number): Promise<Response> {
  const { body, headers } = await browse(text, number, await search(env.DB, text, number));
  return cacheable(body, HTML_TYPE, seconds, headers);
}

async function shown(env: Env, name: string, seconds: number): Promise<Response> {
  const known = NAME.test(name) ? await packages.read(env.DB, name) : null;
  if (known === null) {
    const { body, headers } = await missing(name);
    const kept = { "Content-Type": HTML_TYPE, "Cache-Control": "no-store" };
    return new Response(body, { status: 404, headers: { ...COMMON, ...kept, ...headers } });
  }
  const { body, headers } = await detail(known, await packages.revoked(env.DB));
  return cacheable(body, HTML_TYPE, seconds, headers);
}
