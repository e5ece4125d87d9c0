import type { FastifyReply, FastifyRequest } from 'fastify';

/** What a browser may do with an answer that is no page: nothing. */
const apiContentSecurityPolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** For pages of our own: their scripts, styles, images and requests are this service's. */
export const pageContentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Headers of every answer. @param id a name for the request */
export const createCommonHeaders = (id: string): Readonly<Record<string, string>> => ({
  'x-request-id': id,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': apiContentSecurityPolicy,
  // What a credential was asked for is for its holder; a route that knows better says so.
  'cache-control': 'no-store',
});

/** Names what an answer depended on, beside what its route named. */
export function setVary(request: FastifyRequest, reply: FastifyReply): void {
  if (request.routeOptions.config?.access === 'open') return;
  const named = String(reply.getHeader('vary') ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '');
  reply.header('vary', [...new Set([...named, 'authorization'])].join(', '));
}
