import type { IncomingHttpHeaders } from 'node:http';

export type PreconditionOutcome = 'send' | 'not-modified' | 'failed';

/**
 * What the conditions of a GET or HEAD come to (RFC 9110, section 13.2.2), for what has this sha256 as its tag.
 * `modifiedMs` null: nobody has looked yet, and conditions on time count as met, so that `send` is to be asked again.
 */
export function evaluatePreconditions(
  headers: IncomingHttpHeaders,
  sha256: string,
  modifiedMs: number | null,
): PreconditionOutcome {
  const match = headers['if-match'];
  const noneMatch = headers['if-none-match'];
  if (match !== undefined) {
    if (!hasETag(match, sha256, false)) return 'failed';
  } else {
    const unmodifiedSince = parseHttpDate(headers['if-unmodified-since']);
    if (unmodifiedSince !== null && modifiedMs === null) return 'send';
    if (unmodifiedSince !== null && toSeconds(modifiedMs!) > unmodifiedSince) return 'failed';
  }
  if (noneMatch !== undefined) return hasETag(noneMatch, sha256, true) ? 'not-modified' : 'send';
  const modifiedSince = parseHttpDate(headers['if-modified-since']);
  if (modifiedSince === null || modifiedMs === null) return 'send';
  return toSeconds(modifiedMs) <= modifiedSince ? 'not-modified' : 'send';
}

/**
 * Whether If-Range lets a Range count. A date never does: two versions can be of one second, and parts of both would be
 * put together.
 */
export const allowsRange = (ifRange: string | string[] | undefined, sha256: string): boolean =>
  ifRange === undefined || (typeof ifRange === 'string' && ifRange.trim() === toETag(sha256));

/** The strong entity tag of what has this hash. */
export const toETag = (sha256: string): string => `"${sha256}"`;

/** Whether a list of tags, or `*`, names this one; weak tags count where `weakly`. */
function hasETag(list: string, sha256: string, weakly: boolean): boolean {
  if (list.trim() === '*') return true;
  const tags = [...list.matchAll(/(W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g)];
  return tags.some(([, weak, tag]) => tag === toETag(sha256) && (weakly || weak === undefined));
}

const httpDatePattern = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} (\w{3}) \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Epoch seconds of a date as HTTP writes it; null for any other text, which is to be passed over. */
function parseHttpDate(text: string | undefined): number | null {
  const ms = text !== undefined && httpDatePattern.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? null : toSeconds(ms);
}

const toSeconds = (ms: number): number => Math.floor(ms / 1000);
