import { isIP, type Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { closed, GeneratedAt } from '../../contract/export-manifest.ts';
import { keyScopes } from '../../contract/key-scopes.ts';
import { paths } from '../../contract/paths.ts';
import { MeResponse } from '../../contract/service.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import type { KeyHolder, Principal, User } from '../workspace/owner.ts';
import { createFixedWindowLimiter, createRateLimitError, formatRateLimitHeaders } from './fixed-window-limiter.ts';
import { requireKeyPermissions } from './key-permissions.ts';
import { isSessionCredential } from './page-sessions.ts';
import { isPublicRequest, toRequestOrigin } from './public-access.ts';

/** Maximum number of credential holders whose requests are counted, and of addresses whose failures or exchanges are counted. */
const principalsMax = 100_000;
const addressesMax = 100_000;
/** Bad credentials that one address may send in a minute. */
const failuresMax = 60;

/**
 * The authentication hook of the service: identifies the caller and counts the request against its rate limit. Throws 401
 * without a valid credential, 429 above the rate limit, and 403 if the route does not accept this kind of credential or the
 * key lacks a permission.
 */
export function createAuthenticationHook({ workspace, settings, clock, sessions = null }: ServiceContext) {
  const requests = createFixedWindowLimiter(clock, principalsMax);
  const failures = createFixedWindowLimiter(clock, addressesMax);

  /** The holder of a credential, or null if it is not valid. */
  const findPrincipal = async (credential: string): Promise<Principal | null> => {
    if (!isSessionCredential(credential)) return await workspace.authenticate(credential, clock.nowMs());
    const id = sessions?.findSession(credential) ?? null;
    return id === null ? null : createVisitor('session', id);
  };

  /** A valid credential is accepted whatever other clients behind the same address have sent. */
  const authenticate = async (credential: string, request: FastifyRequest): Promise<Principal> => {
    const principal = await findPrincipal(credential);
    if (principal !== null) return principal;
    const decision = failures.acquire(toNetworkPrefix(request.ip), failuresMax);
    if (!decision.isAllowed)
      throw createRateLimitError('Too many invalid credentials from this address.', 'address', failuresMax, decision);
    const reason = isSessionCredential(credential)
      ? 'The session has ended. Sign in again.'
      : await workspace.explainRejection(credential, clock.nowMs());
    const detail = reason ?? 'The credential is invalid, expired or revoked.';
    throw new ProblemError(401, detail, createChallenge('invalid_token'));
  };

  const count = (principal: Principal, reply: FastifyReply): void => {
    const defaultQuota = settings.service.requestsPerMinute;
    const quota = principal.kind === 'key' ? (principal.requestsPerMinute ?? defaultQuota) : defaultQuota;
    const name = principal.kind === 'key' ? `key ${principal.id}` : `user ${principal.user}`;
    const decision = requests.acquire(name, quota);
    const kind = principal.kind === 'key' && principal.visitor === 'anonymous' ? 'address' : principal.kind;
    if (!decision.isAllowed)
      throw createRateLimitError(`This ${kind} may make ${quota} requests a minute.`, kind, quota, decision);
    reply.headers(formatRateLimitHeaders(kind, quota, decision));
  };

  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const { access = 'key', isCatalogue = false } = request.routeOptions.config;
    const { authorization } = request.headers;
    if (access === 'open' || (access === 'either' && authorization === undefined)) return;
    if (authorization === undefined && isCatalogue && isPublicRequest(settings.service, toRequestOrigin(request))) {
      const visitor = createVisitor('anonymous', toNetworkPrefix(request.ip));
      request.principal = visitor;
      return count(visitor, reply);
    }
    if (authorization === undefined) {
      const how = 'Send a credential in the Authorization header, in the form Bearer CREDENTIAL.';
      throw new ProblemError(401, how, { code: 'missing_credential', ...createChallenge() });
    }
    const principal = await authenticate(parseCredential(authorization), request);
    request.principal = principal;
    count(principal, reply);
    requireAccess(principal, access);
    if (principal.kind === 'key' && principal.visitor === 'session' && !isCatalogue)
      throw new ProblemError(403, 'A session of the catalogue page reads the archive only. Use a market data key.');
    if (access === 'key' && principal.kind === 'key' && !request.is404)
      requireKeyPermissions(principal, request.routeOptions.config.data);
  };
}

/** A reader of the catalogue without a key. IDs of keys have no blank, so that none can be equal. */
const createVisitor = (visitor: 'anonymous' | 'session', id: string): KeyHolder => ({
  kind: 'key',
  id: `${visitor} ${id}`,
  name: visitor,
  requestsPerMinute: null,
  scopes: keyScopes,
  datasets: null,
  visitor,
});

/** The credential of an Authorization header; an empty one, which no database is queried for, if there is none. */
const parseCredential = (authorization: string): string => /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization)?.[1] ?? '';

/** Whether the credential of a long request is still valid, and still that of the same holder. */
export async function isStillValid(
  { workspace, clock }: Pick<ServiceContext, 'workspace' | 'clock'>,
  { headers, principal }: FastifyRequest,
): Promise<boolean> {
  const now = await workspace.authenticate(parseCredential(headers.authorization ?? ''), clock.nowMs());
  return now !== null && now.kind === principal?.kind;
}

/** The network of an address. For IPv6 this is the /64 prefix, because a client usually has an entire /64. */
export function toNetworkPrefix(ip: string): string {
  // A proxy may pass on arbitrary text of any length.
  if (isIP(ip) === 0) return 'unknown';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip)?.[1];
  if (mapped !== undefined || !ip.includes(':')) return mapped ?? ip;
  const [head = '', tail = ''] = ip.toLowerCase().split('%')[0]!.split('::');
  const [first, last] = [head, tail].map((part) => (part === '' ? [] : part.split(':')));
  const zeros = ip.includes('::') ? Array<string>(Math.max(0, 8 - first!.length - last!.length)).fill('0') : [];
  return [...first!, ...zeros, ...last!].slice(0, 4).join(':');
}

/**
 * Who may use a route: `open` anyone, `key` holders of an API key, `user` holders of a user token, `research` holders of a
 * user token with that scope, `either` holders of an API key or requests without a credential (which get a shorter
 * response), `any` holders of either kind of credential.
 */
export type Access = 'open' | 'key' | 'user' | 'research' | 'either' | 'any';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Default: `key`. */
    access?: Access;
    /** Whether the catalogue page needs this route, so that it may be open without a key. Only for bounded GETs. */
    isCatalogue?: boolean;
  }
  interface FastifyRequest {
    principal: Principal | null;
  }
}

/** The WWW-Authenticate header of a 401, and of a 403 for a missing scope (RFC 6750). */
const createChallenge = (error?: string) => ({
  headers: { 'www-authenticate': error === undefined ? 'Bearer' : `Bearer error="${error}"` },
});

/** Throws 403 if the route does not accept this principal. */
export function requireAccess(principal: Principal, access: Access): void {
  if (access === 'open' || access === 'any') return;
  if (access === 'key' || access === 'either') return void requireKeyHolder({ principal });
  const { scopes } = requireUser({ principal });
  if (access === 'research' && !scopes.includes('research')) {
    throw new ProblemError(403, 'The token does not have the research scope.', {
      code: 'missing_scope',
      headers: { 'www-authenticate': 'Bearer error="insufficient_scope", scope="research"' },
    });
  }
}

/** The holder of the API key of a request. */
export function requireKeyHolder({ principal }: Pick<FastifyRequest, 'principal'>): KeyHolder {
  if (principal?.kind !== 'key') throw new ProblemError(403, 'Market data requires a market data key.');
  return principal;
}

export function requireUser({ principal }: Pick<FastifyRequest, 'principal'>): User {
  if (principal?.kind !== 'user') throw new ProblemError(403, 'This route requires a user token.');
  return principal;
}

/** `/api/v1/me`. */
export function registerUserRoutes(app: App, { settings, clock }: ServiceContext): void {
  app.get(
    paths.me,
    {
      config: { access: 'any' },
      schema: {
        operationId: 'getCredential',
        summary: 'The credential and its permissions',
        tags: ['users'],
        response: { 200: MeResponse },
      },
    },
    async ({ principal }): Promise<MeResponse> => {
      const defaultQuota = settings.service.requestsPerMinute;
      const generated_at = clock.nowMs();
      if (principal?.kind === 'key') {
        const { kind, id, name, requestsPerMinute, scopes, datasets } = principal;
        const key = { id, name, datasets: datasets === null ? null : [...datasets] };
        const requests_per_minute = requestsPerMinute ?? defaultQuota;
        return { kind, key, scopes: [...scopes], requests_per_minute, generated_at };
      }
      if (principal === null) throw new Error('a request without a credential passed authentication');
      const { kind, user, workspace, scopes } = principal;
      return { kind, user, workspace, scopes: [...scopes], requests_per_minute: defaultQuota, generated_at };
    },
  );
}

const SessionRequest = closed({ one_time_key: Type.String({ minLength: 1, maxLength: 200 }) });

const PageSessionResponse = Type.Object({
  /** Credential of the session, for the Authorization header. */
  credential: Type.String(),
  /** When the session ends, epoch milliseconds UTC. */
  expires_at: Type.Integer(),
  generated_at: GeneratedAt,
});
type PageSessionResponse = Type.Static<typeof PageSessionResponse>;

/** Exchanges that one address may try in a minute. */
const attemptsMax = 20;

/** `/api/v1/session`: exchanges the one-time key of a link for a session of the catalogue page, and ends a session. */
export function registerSessionRoutes(app: App, { sessions = null, clock }: ServiceContext): void {
  const attempts = createFixedWindowLimiter(clock, addressesMax);
  app.post(
    paths.session,
    {
      config: { access: 'open' },
      // For the page alone, so that clients which are generated from the OpenAPI document do not have it.
      schema: { hide: true, body: SessionRequest, response: { 200: PageSessionResponse } },
    },
    async (request): Promise<PageSessionResponse> => {
      const decision = attempts.acquire(toNetworkPrefix(request.ip), attemptsMax);
      if (!decision.isAllowed)
        throw createRateLimitError('Too many attempts to sign in from this address.', 'address', attemptsMax, decision);
      const session = sessions?.exchange(request.body.one_time_key) ?? null;
      if (session === null)
        throw new ProblemError(
          401,
          'The sign-in link was used before, has expired, or is of another run of the service.',
          createChallenge('invalid_token'),
        );
      return { credential: session.credential, expires_at: session.expiresAt, generated_at: clock.nowMs() };
    },
  );
  app.delete(paths.session, { config: { access: 'open' }, schema: { hide: true } }, async ({ headers }, reply) => {
    sessions?.end(parseCredential(headers.authorization ?? ''));
    return reply.code(204).send(null);
  });
}

/** Interval between two writes of the counts to the database, ms. A killed process loses the counts since the last one. */
const flushEveryMs = 30_000;

/** Counts the requests and the sent bytes of every key. Call it before the authentication hook is added. */
export function countKeyUsage(app: App, { workspace: { usage } }: Pick<ServiceContext, 'workspace'>): void {
  // A connection carries several responses. With HTTP pipelining they may all end with the last one, so that their sum is
  // exact, but not its division between several keys.
  const countedBytes = new WeakMap<Socket, number>();
  app.addHook('onRequest', (request, reply, done) => {
    const { socket } = request.raw;
    const startBytes = socket.bytesWritten;
    // Not onResponse, which does not run for an aborted response. Rejected requests of a key count, too.
    reply.raw.once('close', () => {
      const sentBytes = socket.bytesWritten;
      const bytes = sentBytes - Math.max(startBytes, countedBytes.get(socket) ?? 0);
      countedBytes.set(socket, sentBytes);
      if (request.principal?.kind === 'key' && request.principal.visitor === undefined)
        usage.record(request.principal.id, Math.max(0, bytes));
    });
    done();
  });
  let timer: NodeJS.Timeout | undefined;
  app.addHook('onReady', async () => {
    timer = setInterval(() => void usage.flush(), flushEveryMs).unref();
  });
  // The workspace stores the last counts when it is closed.
  app.addHook('onClose', async () => clearInterval(timer));
}
