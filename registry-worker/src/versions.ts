/**
 * Order of versions, as Python's `packaging` has it for the tags that plugins use (PEP 440, with the spellings of
 * semantic versioning that PEP 440 reads). Tested with test/vectors/versions.json on both sides.
 */

export interface Version {
  epoch: number;
  release: number[];
  /** a, b or rc, and its number; null for none. */
  pre: [string, number] | null;
  post: number | null;
  dev: number | null;
}

const FORM =
  /^v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?(\d+)?)?(?:-(\d+)|[-_.]?(post|rev|r)[-_.]?(\d+)?)?([-_.]?dev[-_.]?(\d+)?)?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?$/i;
const PRE: Record<string, string> = { alpha: "a", a: "a", beta: "b", b: "b", preview: "rc", pre: "rc", c: "rc", rc: "rc" };

/** Return the version a tag names, or null when it names none. */
export function parse(tag: string): Version | null {
  const match = FORM.exec(tag.trim());
  if (match === null) return null;
  const [, epoch, release = "0", pre, preNumber, postShort, post, postNumber, dev, devNumber] = match;
  const hasPost = postShort !== undefined || post !== undefined;
  return {
    epoch: Number(epoch ?? 0),
    release: release.split(".").map(Number),
    pre: pre === undefined ? null : [PRE[pre.toLowerCase()] ?? pre, Number(preNumber ?? 0)],
    post: hasPost ? Number(postShort ?? postNumber ?? 0) : null,
    dev: dev === undefined ? null : Number(devNumber ?? 0),
  };
}

export function isPrerelease(version: Version): boolean {
  return version.pre !== null || version.dev !== null;
}

/** Return a negative number when a is older than b, a positive one when it is newer. */
export function compare(a: Version, b: Version): number {
  if (a.epoch !== b.epoch) return a.epoch - b.epoch;
  for (let place = 0; place < Math.max(a.release.length, b.release.length); place++) {
    const difference = (a.release[place] ?? 0) - (b.release[place] ?? 0);
    if (difference !== 0) return difference;
  }
  const ours = rank(a);
  const theirs = rank(b);
  for (let place = 0; place < ours.length; place++) {
    const difference = (ours[place] ?? 0) - (theirs[place] ?? 0);
    if (difference !== 0 && !Number.isNaN(difference)) return difference;
  }
  return 0;
}

/** 1.0.dev1 < 1.0a1.dev1 < 1.0a1 < 1.0rc1 < 1.0 < 1.0.post1.dev1 < 1.0.post1 */
function rank({ pre, post, dev }: Version): number[] {
  const kind = pre === null ? (post === null && dev !== null ? 0 : 4) : 1 + ["a", "b", "rc"].indexOf(pre[0]);
  return [kind, pre?.[1] ?? 0, post ?? -1, dev ?? Number.MAX_SAFE_INTEGER];
}

/** Return the highest of `tags` that is no prerelease, else the highest; null when none is a version. */
export function latest(tags: string[]): string | null {
  const known = tags.flatMap((tag) => {
    const version = parse(tag);
    return version === null ? [] : [{ tag, version }];
  });
  const released = known.filter(({ version }) => !isPrerelease(version));
  const best = (released.length ? released : known).sort((a, b) => compare(b.version, a.version))[0];
  return best?.tag ?? null;
}
