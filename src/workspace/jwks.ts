import { readFile } from 'node:fs/promises';
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import type { Clock } from '../core/clock.ts';
import { UsageError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { WorkspaceUnavailableError } from './database-unavailable.ts';

/** Bounds of one fetch. */
const fetchMsMax = 5_000;
const bytesMax = 256 * 1024;
/** After this the set is fetched again beside the requests; between two tries at least `retryMs` pass. All in ms. */
const freshMs = 10 * 60_000;
const retryMs = 10_000;
/** A set that cannot be fetched any more is still believed for a day. */
const staleMsMax = 24 * 3_600_000;

/**
 * Finds the key that a token names in a set that is kept up to date. Without any set, or for a key that the last one lacks
 * while no newer can be had, it rejects with WorkspaceUnavailable: nobody can tell then whether the token is good.
 */
export function createCachedKeySet(load: () => Promise<JSONWebKeySet>, clock: Clock, log: Log): JWTVerifyGetKey {
  let kept: { readonly find: JWTVerifyGetKey; readonly at: number } | null = null;
  let triedAt = Number.NEGATIVE_INFINITY;
  let failed = false;
  let trying: Promise<void> | null = null;
  const age = (since: number): number => clock.monotonicMs() - since;
  const refresh = (): Promise<void> => {
    if (trying !== null) return trying;
    if (age(triedAt) < retryMs) return Promise.resolve();
    triedAt = clock.monotonicMs();
    trying = load()
      .then((set) => {
        kept = { find: createLocalJWKSet(set), at: triedAt };
        failed = false;
      })
      .catch((error: unknown) => {
        failed = true;
        log.warn({ why: (error as Error).message }, 'the key set of user tokens cannot be read');
      })
      .finally(() => {
        trying = null;
      });
    return trying;
  };
  return async (header, token) => {
    if (kept === null || age(kept.at) >= staleMsMax) await refresh();
    else if (age(kept.at) >= freshMs) void refresh();
    if (kept === null || age(kept.at) >= staleMsMax) throw createUnavailableError();
    try {
      return await kept.find(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      await refresh();
      if (failed) throw createUnavailableError();
      return kept.find(header, token);
    }
  };
}

const createUnavailableError = () =>
  new WorkspaceUnavailableError('The key set of user tokens (service.tokens) cannot be read.');

/** Fetches a set within `msMax`; redirects are not followed. */
export async function fetchKeySet(url: string, msMax = fetchMsMax): Promise<JSONWebKeySet> {
  const answer = await fetch(url, {
    redirect: 'error',
    headers: { accept: 'application/json' },
    signal: AbortSignal.timeout(msMax),
  });
  if (!answer.ok) {
    await answer.body?.cancel();
    throw new Error(`answered ${answer.status}`);
  }
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of answer.body ?? []) {
    length += piece.length;
    // Leaving the loop ends the request.
    if (length > bytesMax) throw new Error(`longer than ${bytesMax} bytes`);
    pieces.push(piece);
  }
  return parseKeySet(Buffer.concat(pieces).toString('utf8'));
}

/** Reads a set from a file. Throws UsageError where it is missing or none. */
export async function loadKeySet(path: string): Promise<JSONWebKeySet> {
  try {
    const text = await readFile(path, 'utf8');
    if (text.length > bytesMax) throw new Error(`longer than ${bytesMax} bytes`);
    return parseKeySet(text);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : message;
    throw new UsageError(`service.tokens.jwks_file ${path}: ${why}`, { cause: error });
  }
}

function parseKeySet(text: string): JSONWebKeySet {
  let set: unknown;
  try {
    set = JSON.parse(text);
  } catch {
    throw new Error('it is no JSON');
  }
  const { keys } = (set ?? {}) as { keys?: unknown };
  if (!Array.isArray(keys) || !keys.every((key) => typeof key === 'object' && key !== null))
    throw new Error('it is no key set: {"keys": [{"kty": …}]}');
  return set as JSONWebKeySet;
}
