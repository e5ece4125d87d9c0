import type { FastifyRequest } from 'fastify';
import type { KeyHolder, Principal, User } from '../workspace/principal.ts';
import { ProblemError } from './problem-details.ts';

/**
 * Who may use a route: `open` everybody, `key` holders of a market data key, `user` bearers of a user token, `research`
 * those among them whose token has that scope, `either` a key or, in its place, nothing (the route tells less then), `any`
 * a credential of either kind.
 */
export type Access = 'open' | 'key' | 'user' | 'research' | 'either' | 'any';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Without it a route asks for a key. */
    access?: Access;
  }
  interface FastifyRequest {
    principal: Principal | null;
  }
}

/** The header that a 401 has, and a 403 for the lack of a scope (RFC 6750). */
export const createChallenge = (error?: string) => ({
  headers: { 'www-authenticate': error === undefined ? 'Bearer' : `Bearer error="${error}"` },
});

/** Throws 403 where a route is not for who asks. */
export function requireAccess(principal: Principal, access: Access): void {
  if (access === 'open' || access === 'any') return;
  const wanted = access === 'user' || access === 'research' ? 'user' : 'key';
  if (principal.kind !== wanted) {
    throw new ProblemError(
      403,
      wanted === 'key' ? 'Market data is read with a market data key.' : 'This belongs to users: send a user token.',
    );
  }
  if (access === 'research' && !(principal as User).scopes.includes('research')) {
    throw new ProblemError(403, 'The token lacks the scope research.', {
      headers: { 'www-authenticate': 'Bearer error="insufficient_scope", scope="research"' },
    });
  }
}

/** The key that a route for key holders was asked with. */
export function requireKeyHolder(request: FastifyRequest): KeyHolder {
  const { principal } = request;
  if (principal?.kind !== 'key') throw new ProblemError(403, 'Market data is read with a market data key.');
  return principal;
}

/** The bearer of the token that a user's route was asked with. */
export function requireUser(request: FastifyRequest): User {
  const { principal } = request;
  if (principal?.kind !== 'user') throw new ProblemError(403, 'This belongs to users: send a user token.');
  return principal;
}
