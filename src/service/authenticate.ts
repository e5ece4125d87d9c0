import { isIP } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Principal } from '../workspace/principal.ts';
import type { ServiceContext } from './context.ts';
import { ProblemError } from './problem-details.ts';
import { createFixedWindowLimiter, formatRateLimitHeaders, type RateLimitDecision } from './rate-limit.ts';
import { createChallenge, requireAccess } from './route-access.ts';

/** Holders of credentials whose requests are counted, and addresses whose failures are. */
const principalsMax = 100_000;
const addressesMax = 100_000;
/** Bad credentials that one address may send in a minute. */
const failuresMax = 60;

/**
 * The door of the service: finds out who asks, counts the request against the credential's rate, and throws where the
 * route is not for it: 401 without a good credential, 429 beyond the rate, 403 for the wrong kind.
 */
export function createAuthenticationHook({ workspace, settings, clock }: ServiceContext) {
  const requests = createFixedWindowLimiter(clock, principalsMax);
  const failures = createFixedWindowLimiter(clock, addressesMax);

  /** Whom a credential stands for. What was good lately is not held up by what else its address sends. */
  const judge = async (credential: string, request: FastifyRequest): Promise<Principal> => {
    const familiar = workspace.isCachedCredential(credential);
    const address = toNetworkPrefix(request.ip);
    // Before it is judged, so that many at once are no way around.
    const taken = familiar ? null : failures.acquire(address, failuresMax);
    if (taken?.isAllowed === false)
      throw createRateLimitError(
        'Too many credentials from this address were not good.',
        'address',
        failuresMax,
        taken,
      );
    let principal: Principal | null = null;
    try {
      principal = await workspace.authenticate(credential, clock.nowMs());
    } catch (error) {
      if (taken !== null) failures.refund(address);
      throw error;
    }
    if (principal === null)
      throw new ProblemError(
        401,
        'The credential is not one that is good here and now.',
        createChallenge('invalid_token'),
      );
    if (taken !== null) failures.refund(address);
    return principal;
  };

  const count = (principal: Principal, reply: FastifyReply): void => {
    const everybody = settings.service.requestsPerMinute;
    const quota = principal.kind === 'key' ? (principal.requestsPerMinute ?? everybody) : everybody;
    const name = principal.kind === 'key' ? `key ${principal.id}` : `user ${principal.user}`;
    const taken = requests.acquire(name, quota);
    const { kind } = principal;
    if (!taken.isAllowed)
      throw createRateLimitError(`This ${kind} may make ${quota} requests a minute.`, kind, quota, taken);
    reply.headers(formatRateLimitHeaders(kind, quota, taken));
  };

  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const access = request.routeOptions.config.access ?? 'key';
    const { authorization } = request.headers;
    if (access === 'open' || (access === 'either' && authorization === undefined)) return;
    if (authorization === undefined) {
      const how = 'Send a credential in the Authorization header: Bearer, then the credential.';
      throw new ProblemError(401, how, createChallenge());
    }
    const [, credential] = /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization) ?? [];
    // No credential at all is known to be none without a look.
    const principal = await judge(credential ?? '', request);
    request.principal = principal;
    count(principal, reply);
    requireAccess(principal, access);
  };
}

function createRateLimitError(detail: string, policy: string, quota: number, taken: RateLimitDecision): ProblemError {
  const { resetSeconds } = taken;
  return new ProblemError(429, `${detail} Try again in ${resetSeconds} s.`, {
    headers: { ...formatRateLimitHeaders(policy, quota, taken), 'retry-after': String(resetSeconds) },
  });
}

/** Whom an address belongs to: of IPv6 everybody has a network of their own, 64 bits long. */
export function toNetworkPrefix(ip: string): string {
  // What a proxy passes on may be any text, of any length.
  if (isIP(ip) === 0) return 'unknown';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip)?.[1];
  if (mapped !== undefined || !ip.includes(':')) return mapped ?? ip;
  const [head = '', tail = ''] = ip.toLowerCase().split('%')[0]!.split('::');
  const [first, last] = [head, tail].map((part) => (part === '' ? [] : part.split(':')));
  const zeros = ip.includes('::') ? Array<string>(Math.max(0, 8 - first!.length - last!.length)).fill('0') : [];
  return [...first!, ...zeros, ...last!].slice(0, 4).join(':');
}
