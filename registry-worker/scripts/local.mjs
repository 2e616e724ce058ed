// The worker on workerd on this machine: no account, no network, Node 20 is enough (wrangler dev wants 22).
//
//   npm run local -- --port 8787 --fill entries.json --keep .wrangler/local --var CACHE_SECONDS=0
//
// --fill: a JSON object {"entries": [...], "stars": {"name": 1}, "revoked": {...}} of entries as schema/entry.json has
// them. --keep: a folder for the database; without it, it ends with the process. --token LOGIN: makes and prints an
// author token. Prints `ready http://127.0.0.1:PORT` and serves until it gets SIGTERM, SIGINT or the end of its input.
// The line `sync` on its input reads the index repository, as the clock does every ten minutes, and prints `synced`.
import { randomBytes, createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";

process.env.WRANGLER_SEND_METRICS ??= "false";
const here = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

async function bundled(entry) {
  const options = { bundle: true, format: "esm", target: "es2024", write: false, external: ["cloudflare:*", "node:*"] };
  const { outputFiles } = await build({ entryPoints: [here(entry)], ...options });
  return outputFiles[0].text;
}

/** wrangler.jsonc without its comments: what is in it decides here, too. */
function settings() {
  const text = readFileSync(here("wrangler.jsonc"), "utf8");
  return JSON.parse(text.replace(/^\s*\/\/.*$/gm, ""));
}

export async function start({ port = 0, vars = {}, keep = null, limits = true } = {}) {
  const { compatibility_date, ratelimits, vars: own } = settings();
  const limited = Object.fromEntries(
    ratelimits.map(({ name, namespace_id, simple }) => [
      name,
      { namespace_id, simple: limits ? simple : { limit: 1_000_000_000, period: 60 } },
    ]),
  );
  const server = new Miniflare(
    convertV4MiniflareOptions({
      name: "lumia-registry",
      host: "127.0.0.1",
      port,
      modules: true,
      script: await bundled("src/index.ts"),
      compatibilityDate: compatibility_date,
      d1Databases: { DB: "registry" },
      ratelimits: limited,
      bindings: { ...own, ...vars },
      cache: true,
      log: new Log(LogLevel.ERROR),
      cf: false,
      ...(keep === null ? {} : { d1Persist: keep }),
    }),
  );
  const url = await server.ready;
  const db = await server.getD1Database("DB");
  await migrate(db);
  return { server, db, url: url.origin };
}

async function migrate(db) {
  const there = await db.prepare("SELECT name FROM sqlite_master WHERE name = 'plugins'").first();
  if (there !== null) return;
  for (const file of readdirSync(here("migrations")).sort()) {
    const text = readFileSync(here(`migrations/${file}`), "utf8").replace(/^\s*--.*$/gm, "");
    const statements = text.split(";").map((one) => one.trim()).filter(Boolean);
    await db.batch(statements.map((one) => db.prepare(one)));
  }
}

/** Write entries with the worker's own code. */
export async function fill(db, { entries = [], stars = {}, revoked = null }) {
  const code = Buffer.from(await bundled("src/write.ts")).toString("base64");
  const { put, putRevoked } = await import(`data:text/javascript;base64,${code}`);
  for (let at = 0; at < entries.length; at += 200) {
    const some = entries.slice(at, at + 200);
    await db.batch(put(db, some.map((entry) => ({ entry, blob: "local", stars: stars[entry.name] ?? 0 }))));
  }
  if (revoked !== null) await db.batch(putRevoked(db, revoked));
}

export async function token(db, login) {
  const made = `lumia_${randomBytes(32).toString("base64url")}`;
  const hash = createHash("sha256").update(made).digest("hex");
  await db.prepare("INSERT INTO tokens VALUES (?1, ?2, ?3, NULL)").bind(hash, login, new Date().toISOString()).run();
  return made;
}

async function synced(server) {
  const { outcome } = await (await server.getWorker()).scheduled({ scheduledTime: new Date() });
  console.log(`synced ${outcome}`);
}

async function main() {
  const { values } = parseArgs({
    options: {
      port: { type: "string", default: "8787" },
      fill: { type: "string" },
      keep: { type: "string" },
      token: { type: "string" },
      var: { type: "string", multiple: true, default: [] },
    },
  });
  const vars = Object.fromEntries(values.var.map((pair) => [pair.split("=")[0], pair.slice(pair.indexOf("=") + 1)]));
  const { server, db, url } = await start({ port: Number(values.port), vars, keep: values.keep ?? null });
  if (values.fill !== undefined) await fill(db, JSON.parse(readFileSync(values.fill, "utf8")));
  if (values.token !== undefined) console.log(`token ${await token(db, values.token)}`);
  console.log(`ready ${url}`);
  const stop = async () => {
    await server.dispose();
    process.exit(0);
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
  const input = createInterface({ input: process.stdin });
  input.on("line", (line) => line.trim() === "sync" && synced(server));
  input.once("close", stop);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
