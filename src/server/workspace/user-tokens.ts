import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import {
  createLocalJWKSet,
  errors,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
  SignJWT,
} from 'jose';
import { LRUCache } from 'lru-cache';
import { UsageError } from '../../base/errors.ts';
import type { Clock, Log } from '../../base/ports.ts';
import { requireName } from './api-keys.ts';
import { WorkspaceUnavailableError } from './database-url.ts';
import type { User } from './owner.ts';

/** What `service.tokens` says. */
export interface UserTokenSettings {
  readonly issuer: string;
  readonly audience: string;
  readonly secret: string | null;
  readonly jwksUrl: string | null;
  readonly jwksFile: string | null;
}

/** Judges user tokens (JWT, RFC 7519). */
export interface UserTokenVerifier {
  /** Whom a token that is good at `nowMs` stands for; null for any other text. Rejects with WorkspaceUnavailableError. */
  verify(token: string, nowMs: number): Promise<User | null>;
  /** Whether a text was a good token lately, for nothing but the time of a digest. */
  isCached(token: string): boolean;
}

/** How far an issuer's clock may be ahead of ours, in seconds; an end is an end. */
const leewaySeconds = 30;
const tokenCharsMax = 8_192;
const claimCharsMax = 1_000;
/** Tokens whose signature was checked, and for how long that holds, in ms. */
const verifiedTokensMax = 10_000;
const verifiedForMs = 60_000;

interface VerifiedToken {
  readonly user: User;
  readonly expMs: number;
}

/** How a token is checked: the algorithm is never the token's own choice. */
interface TokenVerification {
  readonly algorithms: readonly string[];
  readonly key: Uint8Array | JWTVerifyGetKey;
}

/**
 * Opens what `service.tokens` says; without secret and key set every token is refused.
 * @throws UsageError for more than one of them, a URL that is none, a file that is missing or no key set
 */
export async function openUserTokenVerifier(
  settings: UserTokenSettings,
  clock: Clock,
  log: Log,
): Promise<UserTokenVerifier> {
  const check = await openTokenVerification(settings, clock, log);
  const checked = new LRUCache<string, VerifiedToken>({
    max: verifiedTokensMax,
    ttl: verifiedForMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonicMs() },
  });
  return {
    async verify(token, nowMs) {
      if (check === null || token.length > tokenCharsMax) return null;
      const name = hashToken(token);
      const known = checked.get(name);
      if (known !== undefined && nowMs < known.expMs) return known.user;
      // Familiar no more: from now on it counts as any bad one.
      checked.delete(name);
      let payload: JWTPayload;
      try {
        // A function that finds the key and a key are two forms of one parameter.
        ({ payload } = await jwtVerify(token, check.key as JWTVerifyGetKey, {
          issuer: settings.issuer,
          audience: settings.audience,
          algorithms: [...check.algorithms],
          clockTolerance: leewaySeconds,
          currentDate: new Date(nowMs),
          requiredClaims: ['exp', 'sub'],
        }));
      } catch (error) {
        if (error instanceof WorkspaceUnavailableError) throw error;
        return null;
      }
      const found = parseClaims(payload, nowMs);
      if (found !== null) checked.set(name, found);
      return found?.user ?? null;
    },
    isCached: (token) => token.length <= tokenCharsMax && checked.has(hashToken(token)),
  };
}

const hashToken = (token: string): string => createHash('sha256').update(token, 'utf8').digest('base64');

async function openTokenVerification(
  { secret, jwksUrl, jwksFile }: UserTokenSettings,
  clock: Clock,
  log: Log,
): Promise<TokenVerification | null> {
  if ([secret, jwksUrl, jwksFile].filter((each) => each !== null).length > 1) {
    throw new UsageError(
      'User tokens are checked by one of service.tokens.secret (ODDSLAKE_TOKEN_SECRET), jwks_url and jwks_file: set only one.',
    );
  }
  if (secret !== null) return { algorithms: ['HS256'], key: toSecretKey(secret) };
  // Whoever has a public key could sign by it as if it were a secret: no HS256 here.
  const algorithms = ['RS256', 'ES256', 'EdDSA'];
  if (jwksFile !== null) {
    await loadKeySet(jwksFile);
    return { algorithms, key: createCachedKeySet(() => loadKeySet(jwksFile), clock, log) };
  }
  if (jwksUrl === null) return null;
  const url = URL.parse(jwksUrl);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw new UsageError('service.tokens.jwks_url: expected an https URL (http inside a network) without credentials.');
  return { algorithms, key: createCachedKeySet(() => fetchKeySet(url.href), clock, log) };
}

/** Who a payload stands for, whose times, issuer and audience were checked; null where its claims are not as they are here. */
function parseClaims({ sub, exp, iat, workspace, scope }: JWTPayload, nowMs: number): VerifiedToken | null {
  const isText = (value: unknown): value is string =>
    typeof value === 'string' && value !== '' && value.length <= claimCharsMax && isUnambiguous(value);
  if (!isText(sub) || exp === undefined || exp * 1000 <= nowMs) return null;
  if (iat !== undefined && (typeof iat !== 'number' || iat * 1000 > nowMs + leewaySeconds * 1000)) return null;
  if (workspace !== undefined && !isText(workspace)) return null;
  if (scope !== undefined && typeof scope !== 'string') return null;
  const scopes = (scope ?? '').split(' ').filter((each) => each !== '');
  return { user: { kind: 'user', user: sub, workspace: workspace ?? null, scopes }, expMs: exp * 1000 };
}

/** Whether a database tells it from every other text: written down, halves of surrogate pairs are all the same. */
const isUnambiguous = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

export interface NewUserToken {
  readonly user: string;
  readonly workspace: string | null;
  readonly scopes: readonly string[];
  /** Epoch milliseconds; the second that holds it counts. */
  readonly expiresAt: number;
}

/**
 * Signs a token with the secret of `settings`.
 * @throws UsageError without a secret, for a bad user or workspace, or an end in the past
 */
export async function issueUserToken(settings: UserTokenSettings, token: NewUserToken, nowMs: number): Promise<string> {
  const { secret, issuer, audience } = settings;
  if (secret === null) {
    throw new UsageError(
      'There is no secret to sign with: set ODDSLAKE_TOKEN_SECRET, or service.tokens.secret in the config, to the same text of 32 characters or more for this command and for oddslake serve. Tokens of a key set come from its issuer.',
    );
  }
  requireName(token.user, '--user');
  if (token.workspace !== null) requireName(token.workspace, '--workspace');
  const [now, expires] = [Math.floor(nowMs / 1000), Math.floor(token.expiresAt / 1000)];
  if (expires <= now) throw new UsageError('--expires: a token that expires in the past is good for nothing.');
  const claims = {
    ...(token.workspace === null ? {} : { workspace: token.workspace }),
    ...(token.scopes.length === 0 ? {} : { scope: token.scopes.join(' ') }),
  };
  return new SignJWT(claims)
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setSubject(token.user)
    .setIssuer(issuer)
    .setAudience(audience)
    .setIssuedAt(now)
    .setExpirationTime(expires)
    .sign(toSecretKey(secret));
}

const toSecretKey = (secret: string): Uint8Array => new TextEncoder().encode(secret);

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
 * while no newer can be had, it rejects with WorkspaceUnavailableError: nobody can tell then whether the token is good.
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
