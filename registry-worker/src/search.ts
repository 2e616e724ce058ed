/** Search and the reads behind GET /search. Ranking: docs/registry.md. */
import { asked, askedByParts, asName } from "./terms";

export const PAGE = 50;
export const LAST_PAGE = 1000;
/**
 * With more matches than this, weighing each by its words would take too long and tell little: those that have the
 * words in their name come first, then the others, each by stars.
 */
const BROAD = 1500;
const COLUMNS = "p.name, p.display_name, p.description, p.author, p.git_url, p.latest_tag, p.stars";

export interface Summary {
  name: string;
  display_name: string;
  description: string;
  author: string;
  git_url: string;
  latest_tag: string;
  stars: number;
}

export interface Found {
  plugins: Summary[];
  total: number;
  /** Nothing had these words; these have parts of them. */
  close: boolean;
}

export async function search(db: D1Database, text: string, page: number): Promise<Found> {
  const words = asked(text);
  if (words === null) return text.trim() === "" ? popular(db, page) : { plugins: [], total: 0, close: false };
  const found = await byWords(db, words, asName(text), page);
  if (found.total > 0) return found;
  const parts = askedByParts(text);
  return parts === null ? found : closest(db, parts);
}

async function popular(db: D1Database, page: number): Promise<Found> {
  const [rows, count] = await db.batch([
    db
      .prepare(`SELECT ${COLUMNS} FROM plugins p ORDER BY p.stars DESC, p.name LIMIT ${PAGE} OFFSET ?1`)
      .bind((page - 1) * PAGE),
    db.prepare("SELECT count(*) AS total FROM plugins"),
  ]);
  const total = (count?.results[0] as { total: number } | undefined)?.total ?? 0;
  return { plugins: (rows?.results ?? []) as Summary[], total, close: false };
}

const HITS = "SELECT rowid AS id FROM words WHERE words MATCH ?1";
const COUNT = "(SELECT count(*) FROM words WHERE words MATCH ?1)";
const NAMED = "words MATCH '{name display_name} : (' || ?1 || ')'";

/** One round trip: the guards in the statements decide which of them find anything. */
async function byWords(db: D1Database, words: string, name: string, page: number): Promise<Found> {
  const start = (page - 1) * PAGE;
  const [narrow, named, others, count] = await db.batch<Summary | { total: number }>([
    db
      .prepare(
        `SELECT ${COLUMNS} FROM (SELECT rowid AS id, rank AS score FROM words WHERE words MATCH ?1 AND ${COUNT} <= ${BROAD})
         hit CROSS JOIN plugins p ON p.id = hit.id
         ORDER BY p.name = ?2 DESC, hit.score * p.boost, p.name LIMIT ${PAGE} OFFSET ?3`,
      )
      .bind(words, name, start),
    db
      .prepare(
        `SELECT ${COLUMNS} FROM (SELECT rowid AS id FROM words WHERE ${NAMED} AND ${COUNT} > ${BROAD}) hit
         CROSS JOIN plugins p ON p.id = hit.id
         ORDER BY p.name = ?2 DESC, p.stars DESC, p.name LIMIT ${PAGE} OFFSET ?3`,
      )
      .bind(words, name, start),
    db
      .prepare(
        `SELECT ${COLUMNS} FROM plugins p INDEXED BY plugins_by_stars WHERE p.id IN (${HITS} AND ${COUNT} > ${BROAD})
         AND p.id NOT IN (SELECT rowid FROM words WHERE ${NAMED}) ORDER BY p.stars DESC, p.name
         LIMIT ${PAGE} OFFSET max(0, ?2 - (SELECT count(*) FROM words WHERE ${NAMED}))`,
      )
      .bind(words, start),
    db.prepare(`SELECT ${COUNT} AS total`).bind(words),
  ]);
  const plugins = [narrow, named, others].flatMap((part) => (part?.results ?? []) as Summary[]).slice(0, PAGE);
  return { plugins, total: (count?.results[0] as { total: number } | undefined)?.total ?? 0, close: false };
}

async function closest(db: D1Database, parts: string): Promise<Found> {
  const { results } = await db
    .prepare(
      `SELECT ${COLUMNS} FROM (SELECT rowid AS id, rank AS score FROM grams WHERE grams MATCH ?1 ORDER BY rank LIMIT 10)
       best JOIN plugins p ON p.id = best.id ORDER BY best.score, p.name`,
    )
    .bind(parts)
    .all<Summary>();
  return { plugins: results, total: results.length, close: true };
}
