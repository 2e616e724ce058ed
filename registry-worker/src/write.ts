/** Writing entries of the index repository into D1. */
import type { Entry, Revoked } from "./schema";
import { indexed, indexedName, skeleton } from "./terms";
import { latest } from "./versions";

/**
 * Return the statements that make one plugin what its entry says; run them in one batch. Lists travel as JSON in one
 * parameter: D1 counts statements and parameters.
 */
export function put(db: D1Database, entry: Entry, blob: string, stars: number | null): D1PreparedStatement[] {
  const { name, git_url, owner, manifest, readme_md, versions } = entry;
  const display = manifest.display_name ?? "";
  const description = manifest.description ?? "";
  const author = manifest.author ?? "";
  const good = versions.filter(({ yanked }) => yanked === null).map(({ tag }) => tag);
  const tag = latest(good) ?? latest(versions.map((version) => version.tag)) ?? versions[0]?.tag ?? "";
  const id = "(SELECT id FROM plugins WHERE name = ?1)";
  return [
    db
      .prepare(
        `INSERT INTO plugins (name, display_name, description, author, git_url, latest_tag, owner, skeleton, manifest,
           readme_md, blob) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
         ON CONFLICT (name) DO UPDATE SET display_name = ?2, description = ?3, author = ?4, git_url = ?5,
           latest_tag = ?6, owner = ?7, manifest = ?9, readme_md = ?10, blob = ?11`,
      )
      .bind(name, display, description, author, git_url, tag, owner, skeleton(name), JSON.stringify(manifest), readme_md, blob),
    ...(stars === null ? [] : [setStars(db, name, stars)]),
    db.prepare(`DELETE FROM versions WHERE plugin = ${id}`).bind(name),
    db
      .prepare(
        `INSERT INTO versions SELECT ${id}, key, value ->> 'tag', value ->> 'date', value ->> 'changelog',
           value ->> 'commit', value ->> 'digest', value ->> 'signature', value ->> 'yanked' FROM json_each(?2)`,
      )
      .bind(name, JSON.stringify(versions)),
    db.prepare(`DELETE FROM words WHERE rowid = ${id}`).bind(name),
    db
      .prepare(`INSERT INTO words (rowid, name, display_name, description, author) VALUES (${id}, ?2, ?3, ?4, ?5)`)
      .bind(name, indexedName(name), indexed(display), indexed(description), indexed(author)),
    db.prepare(`DELETE FROM grams WHERE rowid = ${id}`).bind(name),
    db.prepare(`INSERT INTO grams (rowid, name) VALUES (${id}, ?2)`).bind(name, `${name} ${indexed(display)}`),
  ];
}

export function setStars(db: D1Database, name: string, stars: number): D1PreparedStatement {
  const boost = 1 + Math.log10(1 + stars) / 4;
  return db.prepare("UPDATE plugins SET stars = ?2, boost = ?3 WHERE name = ?1").bind(name, stars, boost);
}

export function remove(db: D1Database, name: string): D1PreparedStatement[] {
  const id = "(SELECT id FROM plugins WHERE name = ?1)";
  return [
    ...["DELETE FROM words WHERE rowid", "DELETE FROM grams WHERE rowid", "DELETE FROM versions WHERE plugin"].map(
      (sql) => db.prepare(`${sql} = ${id}`).bind(name),
    ),
    db.prepare("DELETE FROM plugins WHERE name = ?1").bind(name),
  ];
}

export function putRevoked(db: D1Database, { keys, versions }: Revoked): D1PreparedStatement[] {
  return [
    db.prepare("DELETE FROM revoked_keys"),
    db.prepare("DELETE FROM revoked_versions"),
    db
      .prepare(
        `INSERT OR REPLACE INTO revoked_keys
         SELECT value ->> 'fingerprint', value ->> 'reason', value ->> 'date' FROM json_each(?1)`,
      )
      .bind(JSON.stringify(keys)),
    db
      .prepare(
        `INSERT OR REPLACE INTO revoked_versions
         SELECT value ->> 'name', value ->> 'tag', value ->> 'reason', value ->> 'date' FROM json_each(?1)`,
      )
      .bind(JSON.stringify(versions)),
  ];
}

export function setState(db: D1Database, key: string, value: string): D1PreparedStatement {
  return db.prepare("INSERT OR REPLACE INTO state VALUES (?1, ?2)").bind(key, value);
}
