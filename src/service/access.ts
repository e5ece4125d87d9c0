import type { FastifyRequest } from 'fastify';
import type { KeyHolder, Principal, User } from '../workspace/principal.ts';
import type { ServiceContext } from './context.ts';
import { ProblemError } from './problem.ts';

/**
 * Who may use a route: `open` everybody, `key` holders of a market data key, `user` bearers of a user token, `research`
 * those among them whose token has that scope, `either` a key or, in its place, nothing (the route tells less then).
 */
export type Access = 'open' | 'key' | 'user' | 'research' | 'either';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Without it a route asks for a key. */
    access?: Access;
  }
  interface FastifyRequest {
    principal: Principal | null;
  }
}

const challenge = (error?: string) => ({
  headers: { 'www-authenticate': error === undefined ? 'Bearer' : `Bearer error="${error}"` },
});

/** Finds out who asks, and throws where the route is not for them: 401 without a good credential, 403 for the wrong kind. */
export async function requireAccess({ workspace, clock }: ServiceContext, request: FastifyRequest): Promise<void> {
  const access = request.routeOptions.config.access ?? 'key';
  const { authorization } = request.headers;
  if (access === 'open' || (access === 'either' && authorization === undefined)) return;
  if (authorization === undefined)
    throw new ProblemError(
      401,
      'Send a credential in the Authorization header: Bearer, then the credential.',
      challenge(),
    );
  const [, credential] = /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization) ?? [];
  const principal = credential === undefined ? null : await workspace.authenticate(credential, clock.nowMs());
  if (principal === null)
    throw new ProblemError(401, 'The credential is not one that is good here and now.', challenge('invalid_token'));
  request.principal = principal;
  const wanted = access === 'user' || access === 'research' ? 'user' : 'key';
  if (principal.kind !== wanted) {
    throw new ProblemError(
      403,
      wanted === 'key' ? 'Market data is read with a market data key.' : 'This belongs to users: send a user token.',
    );
  }
  if (access === 'research' && !(principal as User).scopes.includes('research')) {
    throw new ProblemError(403, 'The token lacks the scope research.', challenge('insufficient_scope'));
  }
}

/** The key that a route for key holders was asked with. */
export function holderOf(request: FastifyRequest): KeyHolder {
  const { principal } = request;
  if (principal?.kind !== 'key') throw new ProblemError(403, 'Market data is read with a market data key.');
  return principal;
}
