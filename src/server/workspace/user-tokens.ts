import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import {
  createLocalJWKSet,
  decodeJwt,
  errors,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
  SignJWT,
} from 'jose';
import { LRUCache } from 'lru-cache';
import { entriesMax } from '../../base/entries-max.ts';
import { UsageError } from '../../base/errors.ts';
import type { Clock, Log } from '../../base/ports.ts';
import { dayMs, minuteMs } from '../../base/window.ts';
import { requireName } from './api-keys.ts';
import { WorkspaceUnavailableError } from './database-url.ts';
import type { User } from './owner.ts';
import type { TokenIdentity, TokenRevocation } from './revoked-tokens.ts';

/** The settings under `service.tokens`. */
export interface UserTokenSettings {
  readonly issuer: string;
  readonly audience: string;
  readonly secret: string | null;
  readonly jwksUrl: string | null;
  readonly jwksFile: string | null;
}

/** How far an issuer's clock may be ahead of ours, in seconds. It does not extend the expiry time. */
const leewaySeconds = 30;
const tokenCharsMax = 8_192;
const claimCharsMax = 1_000;
/** Maximum number of cached verified tokens, and how long a verification is valid, in ms. */
const verifiedTokensMax = 10_000;
const verifiedForMs = minuteMs;

interface VerifiedToken {
  readonly user: User;
  readonly identity: TokenIdentity;
  readonly expMs: number;
}

/** How to verify a token; the algorithm is never chosen by the token. */
interface TokenVerification {
  readonly algorithms: readonly string[];
  readonly key: Uint8Array | JWTVerifyGetKey;
}

/** Verifies user tokens (JWT, RFC 7519). */
export type UserTokenVerifier = Awaited<ReturnType<typeof openUserTokenVerifier>>;

/**
 * Opens the verifier that the settings configure; without a secret or key set it rejects every token.
 * @param isRevoked whether a token with a valid signature is revoked
 * @throws UsageError for more than one of them, an invalid URL, or a missing or invalid file
 */
export async function openUserTokenVerifier(
  settings: UserTokenSettings,
  clock: Clock,
  log: Log,
  isRevoked: (token: TokenIdentity) => Promise<boolean> = async () => false,
) {
  const verification = await openTokenVerification(settings, clock, log);
  const cache = new LRUCache<string, VerifiedToken>({
    ...entriesMax(verifiedTokensMax),
    ttl: verifiedForMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonicMs() },
  });
  const verifyClaims = async (token: string, nowMs: number): Promise<VerifiedToken | null> => {
    if (verification === null || token.length > tokenCharsMax) return null;
    const name = hashToken(token);
    const known = cache.get(name);
    if (known !== undefined && nowMs < known.expMs) return known;
    cache.delete(name);
    let payload: JWTPayload;
    try {
      // The overloads for a key and for a function that finds one do not accept their union.
      ({ payload } = await jwtVerify(token, verification.key as JWTVerifyGetKey, {
        issuer: settings.issuer,
        audience: settings.audience,
        algorithms: [...verification.algorithms],
        clockTolerance: leewaySeconds,
        currentDate: new Date(nowMs),
        requiredClaims: ['exp', 'sub'],
      }));
    } catch (error) {
      if (error instanceof WorkspaceUnavailableError) throw error;
      return null;
    }
    const verified = parseClaims(payload, nowMs);
    if (verified !== null) cache.set(name, verified);
    return verified;
  };
  return {
    /** The user of a token that is valid at `nowMs`; null for any other text. Rejects with WorkspaceUnavailableError. */
    async verify(token: string, nowMs: number): Promise<User | null> {
      const verified = await verifyClaims(token, nowMs);
      return verified === null || (await isRevoked(verified.identity)) ? null : verified.user;
    },
    /** Whether a token that was not accepted would be valid if it were not revoked. Rejects with WorkspaceUnavailableError. */
    async isRevoked(token: string, nowMs: number): Promise<boolean> {
      const verified = await verifyClaims(token, nowMs);
      return verified !== null && (await isRevoked(verified.identity));
    },
  };
}

const hashToken = (token: string): string => createHash('sha256').update(token, 'utf8').digest('base64');

async function openTokenVerification(
  { secret, jwksUrl, jwksFile }: UserTokenSettings,
  clock: Clock,
  log: Log,
): Promise<TokenVerification | null> {
  if ([secret, jwksUrl, jwksFile].filter((source) => source !== null).length > 1) {
    throw new UsageError('Set only one of service.tokens.secret (ODDSLAKE_TOKEN_SECRET), jwks_url and jwks_file.');
  }
  if (secret !== null) return { algorithms: ['HS256'], key: toSecretKey(secret) };
  // No HS256: anyone with the public key could use it as the secret and sign tokens.
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

/** The user of a payload with verified times, issuer and audience; null if its claims are invalid. */
function parseClaims({ sub, exp, iat, jti, workspace, scope }: JWTPayload, nowMs: number): VerifiedToken | null {
  const isText = (value: unknown): value is string =>
    typeof value === 'string' && value !== '' && value.length <= claimCharsMax && isUnambiguous(value);
  if (!isText(sub) || exp === undefined || exp * 1000 <= nowMs) return null;
  if (iat !== undefined && (typeof iat !== 'number' || iat * 1000 > nowMs + leewaySeconds * 1000)) return null;
  if (workspace !== undefined && !isText(workspace)) return null;
  if (scope !== undefined && typeof scope !== 'string') return null;
  const scopes = (scope ?? '').split(' ').filter((source) => source !== '');
  // Without a time of issue, a token counts as issued before every revocation of its user.
  const identity = { user: sub, jti: typeof jti === 'string' ? jti : null, issuedAtMs: (iat ?? 0) * 1000 };
  return { user: { kind: 'user', user: sub, workspace: workspace ?? null, scopes }, identity, expMs: exp * 1000 };
}

/** Whether the text is well-formed. In UTF-8 all lone surrogates would be stored as the same character. */
const isUnambiguous = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

interface NewUserToken {
  readonly user: string;
  readonly workspace: string | null;
  readonly scopes: readonly string[];
  /** Epoch milliseconds, rounded down to a second. */
  readonly expiresAt: number;
  /** The claim `jti`, by which the token can be revoked. */
  readonly jti?: string;
}

/**
 * Signs a token with the secret of `settings`.
 * @throws UsageError without a secret, for an invalid user or workspace, or an expiry time in the past
 */
export async function issueUserToken(settings: UserTokenSettings, token: NewUserToken, nowMs: number): Promise<string> {
  const { secret, issuer, audience } = settings;
  if (secret === null) {
    throw new UsageError(
      'There is no secret to sign with. Set ODDSLAKE_TOKEN_SECRET, or service.tokens.secret in the config, to the same text of at least 32 characters for this command and for oddslake serve. If oddslake serve uses a key set, its issuer creates the tokens.',
    );
  }
  requireName(token.user, '--user');
  if (token.workspace !== null) requireName(token.workspace, '--workspace');
  const [now, expires] = [Math.floor(nowMs / 1000), Math.floor(token.expiresAt / 1000)];
  if (expires <= now) throw new UsageError('--expires: the expiry time must be in the future.');
  const claims = {
    ...(token.workspace === null ? {} : { workspace: token.workspace }),
    ...(token.scopes.length === 0 ? {} : { scope: token.scopes.join(' ') }),
    ...(token.jti === undefined ? {} : { jti: token.jti }),
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

/**
 * The `jti` and the expiry time of a token to revoke, given as its text or as its `jti`. The signature is not verified: a
 * forged token only revokes an ID.
 * @throws UsageError for a token without `jti`
 */
export function parseRevokedToken(tokenOrId: string): TokenRevocation['tokens'][number] {
  if (!/^[\w-]+\.[\w-]+\.[\w-]*$/.test(tokenOrId)) return { jti: tokenOrId, expiresAt: null };
  let payload: JWTPayload;
  try {
    payload = decodeJwt(tokenOrId);
  } catch {
    return { jti: tokenOrId, expiresAt: null };
  }
  const { jti, exp } = payload;
  if (typeof jti === 'string' && jti !== '')
    return { jti, expiresAt: typeof exp === 'number' ? Math.ceil(exp) * 1000 : null };
  throw new UsageError(
    'This token has no ID (jti). Revoke all tokens of its user: oddslake tokens revoke --user USER.',
  );
}

const toSecretKey = (secret: string): Uint8Array => new TextEncoder().encode(secret);

/** Limits on one fetch, in ms and bytes. */
const fetchMsMax = 5_000;
const bytesMax = 256 * 1024;
/** Age after which the set is fetched again in the background, and minimum time between two attempts, in ms. */
const freshMs = 10 * minuteMs;
const retryMs = 10_000;
/** How long a set that can no longer be fetched stays valid, in ms. */
const staleMsMax = dayMs;

/**
 * Finds keys in a cached key set, which it keeps up to date. Rejects with WorkspaceUnavailableError if no key set is
 * available, or if the last set does not contain the key and a newer set cannot be fetched. The token may be valid.
 */
function createCachedKeySet(load: () => Promise<JSONWebKeySet>, clock: Clock, log: Log): JWTVerifyGetKey {
  let cached: { readonly find: JWTVerifyGetKey; readonly at: number } | null = null;
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
        cached = { find: createLocalJWKSet(set), at: triedAt };
        failed = false;
      })
      .catch((error: unknown) => {
        failed = true;
        log.warn({ why: (error as Error).message }, 'cannot read the key set of user tokens');
      })
      .finally(() => {
        trying = null;
      });
    return trying;
  };
  return async (header, token) => {
    if (cached === null || age(cached.at) >= staleMsMax) await refresh();
    else if (age(cached.at) >= freshMs) void refresh();
    if (cached === null || age(cached.at) >= staleMsMax) throw createUnavailableError();
    try {
      return await cached.find(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      await refresh();
      if (failed) throw createUnavailableError();
      return cached.find(header, token);
    }
  };
}

const createUnavailableError = () =>
  new WorkspaceUnavailableError('Cannot read the key set of user tokens (service.tokens).');

/** Fetches a key set within `msMax`; does not follow redirects. */
export async function fetchKeySet(url: string, msMax = fetchMsMax): Promise<JSONWebKeySet> {
  const response = await fetch(url, {
    redirect: 'error',
    headers: { accept: 'application/json' },
    signal: AbortSignal.timeout(msMax),
  });
  if (!response.ok) {
    await response.body?.cancel();
    throw new Error(`status ${response.status}`);
  }
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    // Leaving the loop ends the request.
    if (length > bytesMax) throw new Error(`longer than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  return parseKeySet(Buffer.concat(chunks).toString('utf8'));
}

/** Reads a key set from a file. @throws UsageError if the file is missing or invalid */
async function loadKeySet(path: string): Promise<JSONWebKeySet> {
  try {
    const text = await readFile(path, 'utf8');
    if (text.length > bytesMax) throw new Error(`longer than ${bytesMax} bytes`);
    return parseKeySet(text);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'the file does not exist' : message;
    throw new UsageError(`service.tokens.jwks_file ${path}: ${why}`, { cause: error });
  }
}

function parseKeySet(text: string): JSONWebKeySet {
  let set: unknown;
  try {
    set = JSON.parse(text);
  } catch {
    throw new Error('not JSON');
  }
  const { keys } = (set ?? {}) as { keys?: unknown };
  if (!Array.isArray(keys) || !keys.every((key) => typeof key === 'object' && key !== null))
    throw new Error('not a key set; expected {"keys": [{"kty": …}]}');
  return set as JSONWebKeySet;
}
