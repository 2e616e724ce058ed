// How long a search takes over 10,000 plugins: the worker on workerd with its real D1 schema, asked over loopback with
// the edge cache off and the rate limits out of the way. Every time is seen from the client, HTTP included.
//
//   npm run bench -- --plugins 10000 --searches 3000
import { Agent, request } from "node:http";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { fill, start } from "../scripts/local.mjs";

const { values } = parseArgs({
  options: {
    plugins: { type: "string", default: "10000" },
    searches: { type: "string", default: "3000" },
    json: { type: "boolean", default: false },
  },
});

/** The same numbers every time: a small generator (mulberry32). */
function generator(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const random = generator(7);
const pick = (list) => list[Math.floor(random() * list.length)];
/** Words in the frequencies of language: the first ones much more often than the last. */
const often = (list) => list[Math.floor(list.length ** random()) - 1] ?? list[0];

const THINGS = (
  "bot chat group message reply memory image voice music game dice poker weather news translate search reminder calendar " +
  "sticker poll vote admin welcome filter spam log backup search code math quiz trivia story roleplay persona emotion " +
  "image draw photo video stream feed rss github issue deploy monitor alert finance stock crypto map travel food recipe " +
  "health sleep sport football chess card anime manga novel book library wiki dictionary grammar language english chinese " +
  "schedule timer alarm note todo list file upload download link short proxy network ping status server docker cloud"
).split(" ");
const VERBS = "sends reads keeps tells shows finds writes draws plays counts watches answers summarises translates".split(" ");
const CHINESE = "天气 群聊 机器人 消息 回复 记忆 图片 语音 音乐 游戏 骰子 翻译 搜索 提醒 日历 表情 投票 管理 欢迎 过滤 日志".split(" ");
const SYLLABLES = "ka lo mi ra ne to su vi pe da ho zu bel tor min sal fen gri".split(" ");
const made = () => Array.from({ length: 2 + Math.floor(random() * 2) }, () => pick(SYLLABLES)).join("");
const RARE = Array.from({ length: 4000 }, made);

function entry(number) {
  const name = `${often(THINGS)}-${pick(RARE)}${number}`;
  const words = Array.from({ length: 8 + Math.floor(random() * 18) }, () => (random() < 0.75 ? often(THINGS) : pick(RARE)));
  const chinese = random() < 0.3 ? ` ${pick(CHINESE)}${pick(CHINESE)}，${pick(CHINESE)}` : "";
  const text = `A bot plugin that ${pick(VERBS)} ${words.join(" ")}${chinese}`;
  const manifest = { name, display_name: name.replaceAll("-", " "), description: text, author: pick(RARE) };
  const version = {
    tag: "v1.0.0", date: "2026-11-01T00:00:00Z", changelog: "", commit: "a".repeat(40), digest: `sha256:${"a".repeat(64)}`,
    signature: null, yanked: null,
  };
  return { name, git_url: `https://example.org/${name}`, owner: "author:bench", manifest, readme_md: "", versions: [version] };
}

const typo = (word) => word.slice(0, 3) + word.slice(4);
/** What people type, each kind as often as the others. */
const KINDS = {
  "a name": (names) => pick(names),
  "a common word": () => pick(THINGS),
  "a word begun": () => pick(THINGS).slice(0, 1 + Math.floor(random() * 4)),
  "two common words": () => `${pick(THINGS)} ${pick(THINGS)}`,
  "a common and a rare word": () => `${often(THINGS)} ${pick(RARE)}`,
  "Chinese words": () => pick(CHINESE) + pick(CHINESE),
  "a name with a slip": (names) => typo(pick(names)),
  "a word that all have": () => "bot",
  "nothing": () => "",
  "a rare word": () => pick(RARE),
};

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

function timed(url) {
  return new Promise((resolve, reject) => {
    const from = process.hrtime.bigint();
    request(url, { agent }, (response) => {
      response.resume();
      response.on("end", () => {
        if (response.statusCode !== 200) reject(new Error(`${response.statusCode} for ${url}`));
        else resolve(Number(process.hrtime.bigint() - from) / 1e6);
      });
    })
      .on("error", reject)
      .end();
  });
}

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];

const { server, db, url } = await start({ vars: { CACHE_SECONDS: "0" }, limits: false });
try {
  const entries = Array.from({ length: Number(values.plugins) }, (_, number) => entry(number));
  const stars = Object.fromEntries(entries.map(({ name }) => [name, Math.floor(random() ** 6 * 5000)]));
  await fill(db, { entries, stars });
  const names = entries.map(({ name }) => name);
  const kinds = Object.keys(KINDS);
  const address = (kind) => `${url}/search?${new URLSearchParams({ q: KINDS[kind](names) })}`;
  const times = Object.fromEntries(kinds.map((kind) => [kind, []]));
  const floor = [];
  for (let count = 0; count < 200; count++) await timed(address(pick(kinds)));
  for (let count = 0; count < Number(values.searches); count++) {
    const kind = kinds[count % kinds.length];
    times[kind].push(await timed(address(kind)));
    if (kind === "nothing") floor.push(await timed(`${url}/revoked`));
  }
  const summed = (list) => {
    const sorted = [...list].sort((a, b) => a - b);
    return { p50: at(sorted, 0.5), p95: at(sorted, 0.95), p99: at(sorted, 0.99) };
  };
  const all = summed(Object.values(times).flat());
  const figures = {
    plugins: entries.length,
    searches: Number(values.searches),
    ...all,
    request_without_search: summed(floor),
    kinds: Object.fromEntries(kinds.map((kind) => [kind, summed(times[kind])])),
  };
  if (values.json) console.log(JSON.stringify(figures));
  else {
    const line = (what, { p50, p95, p99 }) =>
      console.log(`${what.padEnd(26)} ${[p50, p95, p99].map((ms) => `${ms.toFixed(2)} ms`.padStart(10)).join("")}`);
    console.log(`${figures.plugins} plugins, ${figures.searches} searches, ${cpus()[0]?.model ?? "?"}, Node ${process.version}`);
    console.log(`${"".padEnd(26)} ${["p50", "p95", "p99"].map((word) => word.padStart(10)).join("")}`);
    line("all (aim: p95 < 15 ms)", all);
    for (const kind of kinds) line(`  ${kind}`, figures.kinds[kind]);
    line("a request, no search", figures.request_without_search);
  }
} finally {
  agent.destroy();
  await server.dispose();
}
