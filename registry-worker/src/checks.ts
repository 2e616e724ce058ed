/** The automatic checks of a submission; the author sees their report at once. */
import type { Account } from "./auth";
import type { Env } from "./env";
import { type Claim, claimed, type Package, read, revoked } from "./packages";
import { look, type Source } from "./repository";
import { invisible, misfits, type Submission } from "./schema";
import { holds, parts } from "./signature";
import { skeleton } from "./terms";
import { compare, parse } from "./versions";

export interface Check {
  name: string;
  ok: boolean;
  text: string;
}

const MIB = 1024 * 1024;
export const LIMITS = { size: 64 * MIB, files: 5000, file: 16 * MIB };
const RESERVED = new Set(
  ("lumia false none true and as assert async await break class continue def del elif else except finally for from " +
    "global if import in is lambda nonlocal not or pass raise return try while with yield").split(" "),
);
const SPDX = /^\(?[A-Za-z0-9][A-Za-z0-9.+-]*\)?( (AND|OR|WITH) \(?[A-Za-z0-9][A-Za-z0-9.+-]*\)?)*$/;

const passed = (name: string, text: string): Check => ({ name, ok: true, text });
const failed = (name: string, text: string): Check => ({ name, ok: false, text });

/** Return the report; nothing after the first check is asked of anybody while the submission itself doesn't fit. */
export async function examine(env: Env, account: Account, data: unknown): Promise<Check[]> {
  const form = fits(data);
  if (!form.ok) return [form];
  const submission = data as Submission;
  const { name } = submission.manifest;
  const [claim, known, source, untrusted] = await Promise.all([
    claimed(env.DB, name, skeleton(name)),
    read(env.DB, name),
    look(env, submission.git_url, submission.tag, account.token),
    revoked(env.DB),
  ]);
  return [
    form,
    nameFree(name, claim),
    mayOwn(account, claim, source, submission),
    version(submission, known),
    tagThere(submission, source),
    manifestThere(submission, source),
    size(submission, source),
    files(source),
    licence(submission, source),
    validation(submission),
    await signature(submission, known, untrusted.keys),
  ];
}

function fits(data: unknown): Check {
  const problems = misfits("submission", data);
  const manifest = (data as { manifest?: unknown } | null)?.manifest;
  if (problems.length === 0) problems.push(...misfits("manifest", manifest).map((text) => `manifest.json: ${text}`));
  const odd = problems.length === 0 ? invisible(manifest) : null;
  if (odd !== null) problems.push(`manifest.json: ${odd}; remove it`);
  return problems.length === 0
    ? passed("schema", "The submission and the manifest fit their schemas.")
    : failed("schema", problems.join("; ").slice(0, 1000));
}

function nameFree(name: string, claim: Claim | null): Check {
  if (RESERVED.has(name)) return failed("name", `${name} is a reserved word; choose another name.`);
  if (claim === null) return passed("name", `${name} is free and looks like no other name.`);
  if (claim.name === name) return passed("name", `${name} is in the registry already; this is a new version of it.`);
  return failed("name", `${name} is too easily taken for ${claim.name}; choose a name that differs in more.`);
}

function mayOwn(account: Account, claim: Claim | null, source: Source | null, { git_url, manifest }: Submission): Check {
  if (claim !== null && claim.name === manifest.name && claim.owner !== account.owner) {
    return failed("owner", `${claim.name} belongs to another account; its owner submits versions of it.`);
  }
  if (source?.mayPush === false) {
    return failed("owner", `${account.login} may not push to ${git_url}; somebody who may has to submit it.`);
  }
  if (claim !== null && claim.name === manifest.name && claim.git_url !== git_url) {
    return passed("owner", `The repository moves from ${claim.git_url} to ${git_url}; a reviewer will ask about it.`);
  }
  const theirs = source?.mayPush === true || source?.ownerLogin?.toLowerCase() === account.login.toLowerCase();
  return theirs
    ? passed("owner", `${account.login} may push to the repository.`)
    : passed("owner", `A reviewer will ask how ${account.login} belongs to the repository.`);
}

function version({ tag, manifest }: Submission, known: Package | null): Check {
  const asked = parse(tag);
  if (asked === null) return failed("version", `${tag} is no version; tag it like v1.2.3 or v1.2.3rc1.`);
  const same = known?.versions.find((one) => {
    const other = parse(one.tag);
    return one.tag === tag || (other !== null && compare(other, asked) === 0);
  });
  return same === undefined
    ? passed("version", `${tag} is new.`)
    : failed("version", `${manifest.name} ${same.tag} is in the registry already; published versions never change.`);
}

function tagThere({ git_url, tag, commit }: Submission, source: Source | null): Check {
  if (source === null) {
    const way = /^https?:/.test(git_url) ? "is it public, and spelled so?" : 'name its https address as "source" in manifest.json.';
    return failed("tag", `${git_url} can't be read without an account; ${way}`);
  }
  if (source.commit === null) return failed("tag", `There is no tag ${tag} at ${git_url}; push it: git push origin ${tag}`);
  return source.commit === commit
    ? passed("tag", `${tag} is commit ${commit.slice(0, 12)}.`)
    : failed("tag", `${tag} is commit ${source.commit.slice(0, 12)} there, not ${commit.slice(0, 12)}; push the tag you mean.`);
}

const LATER = "Only GitHub's files can be read from here; a reviewer will look.";

function manifestThere({ manifest }: Submission, source: Source | null): Check {
  if (source?.host === "git") return passed("manifest", LATER);
  if (source?.manifest == null) return failed("manifest", "There is no manifest.json in the repository at this tag.");
  let there: unknown;
  try {
    there = JSON.parse(source.manifest.replace(/^\ufeff/, ""));
  } catch {
    return failed("manifest", "manifest.json at this tag is no JSON.");
  }
  return canonical(there) === canonical(manifest)
    ? passed("manifest", "The manifest is the one at the tag.")
    : failed("manifest", "manifest.json at this tag differs from the submitted one; submit what you tagged.");
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

function size(submission: Submission, source: Source | null): Check {
  const tree = source?.tree;
  const total = tree?.size ?? submission.size;
  const count = tree?.files ?? submission.files ?? 1;
  const told = `${count} files, ${readable(total)}`;
  if (tree?.cut) return failed("size", `The repository has more files than GitHub lists; at most ${LIMITS.files} are taken.`);
  if (total > LIMITS.size || count > LIMITS.files) {
    return failed("size", `${told}; at most ${LIMITS.files} files and ${readable(LIMITS.size)} are taken.`);
  }
  if (tree != null && tree.largest.size > LIMITS.file) {
    return failed("size", `${tree.largest.path} has ${readable(tree.largest.size)}; one file has at most ${readable(LIMITS.file)}.`);
  }
  return passed("size", `${told}.`);
}

function readable(bytes: number): string {
  if (bytes >= MIB) return `${(bytes / MIB).toFixed(1)} MiB`;
  return bytes >= 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${bytes} bytes`;
}

function files(source: Source | null): Check {
  if (source?.host === "git") return passed("files", LATER);
  if (source?.tree == null) return failed("files", "The files at this tag can't be listed.");
  const { submodules, paths, links } = source.tree;
  if (submodules[0] !== undefined) return failed("files", `${submodules[0]} is a submodule; plugins are one repository.`);
  const odd = paths.find((path) => invisible(path) !== null || path.includes("\\"));
  if (odd !== undefined) return failed("files", `The file name ${JSON.stringify(odd)} has characters that no system is safe with.`);
  const folded = new Map<string, string>();
  for (const path of paths) {
    const key = path.normalize("NFC").toLowerCase();
    const twin = folded.get(key);
    if (twin !== undefined) return failed("files", `${twin} and ${path} are one file on some systems; rename one.`);
    folded.set(key, path);
  }
  const text = links.length ? `${links.length} links, which installing follows only inside the folder.` : "Nothing odd.";
  return passed("files", text);
}

function licence({ licence: told, manifest }: Submission, source: Source | null): Check {
  if (!SPDX.test(told)) return failed("licence", `${told} is no SPDX expression; write it like MIT, Apache-2.0 or LicenseRef-Mine.`);
  const written = typeof manifest.license === "string" ? manifest.license : "";
  if (written !== "" && written.toLowerCase() !== told.toLowerCase()) {
    return failed("licence", `The submission says ${told}, manifest.json says ${written}.`);
  }
  if (source?.tree != null && source.tree.licenceFile === null) {
    return failed("licence", `There is no LICENSE file in the repository; add the text of ${told}.`);
  }
  return passed("licence", told);
}

function validation({ validation: report }: Submission): Check {
  if (report === undefined) {
    return failed("validation", "The submission has no report of `pkg dev validate`; `pkg dev publish` adds it.");
  }
  if (report.errors > 0) {
    return failed("validation", `\`pkg dev validate\` found ${report.errors} errors (${report.tool}); mend them first.`);
  }
  return passed("validation", `No errors, ${report.warnings ?? 0} warnings (${report.tool}).`);
}

async function signature(
  { manifest, tag, digest, signature: text }: Submission,
  known: Package | null,
  untrusted: { fingerprint: string; reason: string }[],
): Promise<Check> {
  const before = known?.versions.find((one) => one.signature !== null)?.signature ?? null;
  if (text == null) {
    return before === null
      ? passed("signature", "Unsigned: whoever installs it is told so. `pkg dev sign` signs a version.")
      : failed("signature", "Earlier versions are signed, this one is not; sign it with `pkg dev sign`.");
  }
  const found = parts(text);
  if (found === null || !(await holds(manifest.name, tag, digest, found))) {
    return failed("signature", "The signature is not one over this name, tag and digest; sign the tag anew.");
  }
  const bad = untrusted.find(({ fingerprint }) => fingerprint === found.fingerprint);
  if (bad !== undefined) return failed("signature", `The key ${found.fingerprint} was revoked: ${bad.reason}`);
  const earlier = before === null ? null : parts(before);
  const same = earlier === null || btoa(String.fromCharCode(...earlier.key)) === btoa(String.fromCharCode(...found.key));
  if (!same) return passed("signature", `Another key than before (${earlier?.fingerprint}); a reviewer will ask why.`);
  return passed("signature", `Signed with ${found.fingerprint}.`);
}
