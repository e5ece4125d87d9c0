import { createHash } from 'node:crypto';
import { type JWTPayload, type JWTVerifyGetKey, jwtVerify, SignJWT } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../core/clock.ts';
import { UsageError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { requireName } from './api-keys.ts';
import { WorkspaceUnavailable } from './database-unavailable.ts';
import { fetchKeySet, keptKeySet, loadKeySet } from './jwks.ts';
import type { User } from './principal.ts';

/** What `service.tokens` says. */
export interface TokenSettings {
  readonly issuer: string;
  readonly audience: string;
  readonly secret: string | null;
  readonly jwksUrl: string | null;
  readonly jwksFile: string | null;
}

/** Judges user tokens (JWT, RFC 7519). */
export interface Tokens {
  /** Whom a token that is good at `nowMs` stands for; null for any other text. Rejects with WorkspaceUnavailable. */
  user(token: string, nowMs: number): Promise<User | null>;
  /** Whether a text was a good token lately, for nothing but the time of a digest. */
  isFamiliar(token: string): boolean;
}

/** How far an issuer's clock may be ahead of ours, in seconds; an end is an end. */
const leewaySeconds = 30;
const tokenCharsMax = 8_192;
const claimCharsMax = 1_000;
/** Tokens whose signature was checked, and for how long that holds, in ms. */
const checkedMax = 10_000;
const checkedMs = 60_000;

interface Checked {
  readonly user: User;
  readonly expMs: number;
}

/** How a token is checked: the algorithm is never the token's own choice. */
interface Check {
  readonly algorithms: readonly string[];
  readonly key: Uint8Array | JWTVerifyGetKey;
}

/**
 * Opens what `service.tokens` says; without secret and key set every token is refused.
 * @throws UsageError for more than one of them, a URL that is none, a file that is missing or no key set
 */
export async function openTokens(settings: TokenSettings, clock: Clock, log: Log): Promise<Tokens> {
  const check = await openCheck(settings, clock, log);
  const checked = new LRUCache<string, Checked>({
    max: checkedMax,
    ttl: checkedMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonicMs() },
  });
  return {
    async user(token, nowMs) {
      if (check === null || token.length > tokenCharsMax) return null;
      const name = nameOf(token);
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
        if (error instanceof WorkspaceUnavailable) throw error;
        return null;
      }
      const found = readClaims(payload, nowMs);
      if (found !== null) checked.set(name, found);
      return found?.user ?? null;
    },
    isFamiliar: (token) => token.length <= tokenCharsMax && checked.has(nameOf(token)),
  };
}

const nameOf = (token: string): string => createHash('sha256').update(token, 'utf8').digest('base64');

async function openCheck({ secret, jwksUrl, jwksFile }: TokenSettings, clock: Clock, log: Log): Promise<Check | null> {
  if ([secret, jwksUrl, jwksFile].filter((each) => each !== null).length > 1) {
    throw new UsageError(
      'User tokens are checked by one of service.tokens.secret (ODDSLAKE_TOKEN_SECRET), jwks_url and jwks_file: set only one.',
    );
  }
  if (secret !== null) return { algorithms: ['HS256'], key: keyOf(secret) };
  // Whoever has a public key could sign by it as if it were a secret: no HS256 here.
  const algorithms = ['RS256', 'ES256', 'EdDSA'];
  if (jwksFile !== null) {
    await loadKeySet(jwksFile);
    return { algorithms, key: keptKeySet(() => loadKeySet(jwksFile), clock, log) };
  }
  if (jwksUrl === null) return null;
  const url = URL.parse(jwksUrl);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw new UsageError('service.tokens.jwks_url: expected an https URL (http inside a network) without credentials.');
  return { algorithms, key: keptKeySet(() => fetchKeySet(url.href), clock, log) };
}

/** Who a payload stands for, whose times, issuer and audience were checked; null where its claims are not as they are here. */
function readClaims({ sub, exp, iat, workspace, scope }: JWTPayload, nowMs: number): Checked | null {
  const isText = (value: unknown): value is string =>
    typeof value === 'string' && value !== '' && value.length <= claimCharsMax && isDistinct(value);
  if (!isText(sub) || exp === undefined || exp * 1000 <= nowMs) return null;
  if (iat !== undefined && (typeof iat !== 'number' || iat * 1000 > nowMs + leewaySeconds * 1000)) return null;
  if (workspace !== undefined && !isText(workspace)) return null;
  if (scope !== undefined && typeof scope !== 'string') return null;
  const scopes = (scope ?? '').split(' ').filter((each) => each !== '');
  return { user: { kind: 'user', user: sub, workspace: workspace ?? null, scopes }, expMs: exp * 1000 };
}

/** Whether a database tells it from every other text: written down, halves of surrogate pairs are all the same. */
const isDistinct = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

export interface NewToken {
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
export async function issueToken(settings: TokenSettings, token: NewToken, nowMs: number): Promise<string> {
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
    .sign(keyOf(secret));
}

const keyOf = (secret: string): Uint8Array => new TextEncoder().encode(secret);
