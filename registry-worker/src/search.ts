/** Search and the reads behind GET /search. Ranking: docs/registry.md. */
import { asked, askedByParts, asName } from "./terms";

export const PAGE = 50;
export const LAST_PAGE = 1000;
/** So many best matches by words are put in order by stars, too; what follows stays in order of the words. */
const WINDOW = 500;
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
  return found(rows, count);
}

async function byWords(db: D1Database, words: string, name: string, page: number): Promise<Found> {
  const start = (page - 1) * PAGE;
  const ranked =
    start < WINDOW
      ? db
          .prepare(
            `WITH best AS MATERIALIZED (
               SELECT rowid AS id, rank AS score FROM words WHERE words MATCH ?1 ORDER BY rank LIMIT ${WINDOW}
             )
             SELECT ${COLUMNS} FROM best JOIN plugins p ON p.id = best.id
             ORDER BY p.name = ?2 DESC, best.score * p.boost, p.name LIMIT ${PAGE} OFFSET ?3`,
          )
          .bind(words, name, start)
      : db
          .prepare(
            `SELECT ${COLUMNS} FROM (SELECT rowid AS id, rank AS score FROM words WHERE words MATCH ?1
               ORDER BY rank LIMIT ${PAGE} OFFSET ?2) best JOIN plugins p ON p.id = best.id ORDER BY best.score`,
          )
          .bind(words, start);
  const count = db.prepare("SELECT count(*) AS total FROM words WHERE words MATCH ?1").bind(words);
  const [rows, total] = await db.batch([ranked, count]);
  return found(rows, total);
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

function found(rows: D1Result | undefined, count: D1Result | undefined): Found {
  const total = (count?.results[0] as { total: number } | undefined)?.total ?? 0;
  return { plugins: (rows?.results ?? []) as Summary[], total, close: false };
}
