/** Writing entries of the index repository into D1. */
import type { Entry, Revoked } from "./schema";
import { indexed, indexedName, skeleton } from "./terms";
import { latest } from "./versions";

/** An entry, its file's hash in the index repository, and its stars where they are known. */
export interface Row {
  entry: Entry;
  blob: string;
  stars: number | null;
}

const GIVEN = "FROM json_each(?1) e JOIN plugins p ON p.name = e.value ->> 'name'";
const THEIRS = "IN (SELECT id FROM plugins WHERE name IN (SELECT value ->> 'name' FROM json_each(?1)))";
const STATEMENTS = [
  `INSERT INTO plugins (name, display_name, description, author, git_url, latest_tag, owner, skeleton, manifest,
     readme_md, blob)
   SELECT value ->> 'name', value ->> 'display_name', value ->> 'description', value ->> 'author', value ->> 'git_url',
     value ->> 'latest_tag', value ->> 'owner', value ->> 'skeleton', value ->> 'manifest', value ->> 'readme_md',
     value ->> 'blob' FROM json_each(?1) WHERE true
   ON CONFLICT (name) DO UPDATE SET display_name = excluded.display_name, description = excluded.description,
     author = excluded.author, git_url = excluded.git_url, latest_tag = excluded.latest_tag, owner = excluded.owner,
     manifest = excluded.manifest, readme_md = excluded.readme_md, blob = excluded.blob`,
  `UPDATE plugins SET stars = given.stars, boost = given.boost
   FROM (SELECT value ->> 'name' AS name, value ->> 'stars' AS stars, value ->> 'boost' AS boost FROM json_each(?1)) given
   WHERE plugins.name = given.name AND given.stars IS NOT NULL`,
  `DELETE FROM versions WHERE plugin ${THEIRS}`,
  `INSERT INTO versions SELECT p.id, v.key, v.value ->> 'tag', v.value ->> 'date', v.value ->> 'changelog',
     v.value ->> 'commit', v.value ->> 'digest', v.value ->> 'signature', v.value ->> 'yanked'
   ${GIVEN}, json_each(e.value, '$.versions') v`,
  `DELETE FROM words WHERE rowid ${THEIRS}`,
  `INSERT INTO words (rowid, name, display_name, description, author) SELECT p.id, e.value ->> 'name_words',
     e.value ->> 'display_words', e.value ->> 'description_words', e.value ->> 'author_words' ${GIVEN}`,
  `DELETE FROM grams WHERE rowid ${THEIRS}`,
  `INSERT INTO grams (rowid, name) SELECT p.id, e.value ->> 'parts' ${GIVEN}`,
];

/**
 * Return the statements that make plugins what their entries say; run them in one batch. All rows travel as JSON in one
 * parameter, for D1 counts statements and parameters; one parameter has at most 2 MB.
 */
export function put(db: D1Database, rows: Row[]): D1PreparedStatement[] {
  const given = JSON.stringify(rows.map(flat));
  return STATEMENTS.map((sql) => db.prepare(sql).bind(given));
}

function flat({ entry, blob, stars }: Row): Record<string, unknown> {
  const { name, git_url, owner, manifest, readme_md, versions } = entry;
  const { display_name = "", description = "", author = "" } = manifest;
  const good = versions.filter(({ yanked }) => yanked === null).map(({ tag }) => tag);
  const latest_tag = latest(good) ?? latest(versions.map(({ tag }) => tag)) ?? versions[0]?.tag ?? "";
  return {
    ...{ name, display_name, description, author, git_url, latest_tag, owner, readme_md, blob, stars, versions },
    skeleton: skeleton(name),
    boost: boost(stars ?? 0),
    manifest: JSON.stringify(manifest),
    name_words: indexedName(name),
    display_words: indexed(display_name),
    description_words: indexed(description),
    author_words: indexed(author),
    parts: `${name} ${indexed(display_name)}`,
  };
}

function boost(stars: number): number {
  return 1 + Math.log10(1 + stars) / 4;
}

export function setStars(db: D1Database, name: string, stars: number): D1PreparedStatement {
  return db.prepare("UPDATE plugins SET stars = ?2, boost = ?3 WHERE name = ?1").bind(name, stars, boost(stars));
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
