import type { FastifyRequest } from 'fastify';
import type { ServiceLimits } from './http-limits.ts';
import { ProblemError } from './problem-details.ts';

/** Methods whose requests have no body. */
const bodylessMethods = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE']);

/** Refuses what no route of ours ever takes, before anything else looks at the request. */
export function requireValidRequest(request: FastifyRequest, { targetBytesMax }: ServiceLimits): void {
  const { headers, rawHeaders, method, url = '', httpVersion } = request.raw;
  if (url.length > targetBytesMax)
    throw new ProblemError(414, `A path with its query has at most ${targetBytesMax} bytes.`);
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    throw new ProblemError(400, 'This is not a request of HTTP/1.1.', { headers: { connection: 'close' } });
  const hosts = countHeader(rawHeaders, 'host');
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1'))
    throw new ProblemError(400, 'A request names its host, once.');
  if (countHeader(rawHeaders, 'authorization') > 1)
    throw new ProblemError(400, 'A request has one Authorization header at most.');
  if (!url.startsWith('/') && !(url === '*' && method === 'OPTIONS'))
    throw new ProblemError(400, 'The target of a request is a path.');
  const hasBody = headers['transfer-encoding'] !== undefined || !/^0*$/.test(headers['content-length']?.trim() ?? '');
  if (!hasBody) {
    // Clients that always name a type name that of a body which they do not send, too.
    if (bodylessMethods.has(method ?? '')) delete headers['content-type'];
    return;
  }
  // What follows is not read, so the connection cannot serve another request.
  const close = { headers: { connection: 'close' } };
  if (bodylessMethods.has(method ?? '')) throw new ProblemError(400, `${method} takes no body.`, close);
  const coding = headers['content-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'identity')
    throw new ProblemError(415, 'A body is sent as it is, without a content encoding.', {
      headers: { ...close.headers, 'accept-encoding': 'identity' },
    });
}

/** @throws ProblemError 400 where a text in a body is none that can be kept: half a surrogate pair, or NUL */
export function requireValidBodyText(body: unknown): void {
  const unclean = findInvalidText(body, '');
  if (unclean === null) return;
  throw new ProblemError(400, 'A text in the body is not one that can be kept.', {
    errors: [{ name: unclean, reason: 'holds NUL or half a surrogate pair' }],
  });
}

/** Bodies are small, but their nesting is the sender's choice: deeper than this is refused, not followed. */
const depthMax = 32;

function findInvalidText(value: unknown, path: string, depth = 0): string | null {
  if (typeof value === 'string') return isValidText(value) ? null : path;
  if (typeof value !== 'object' || value === null) return null;
  if (depth >= depthMax) throw new ProblemError(400, `The body is nested deeper than ${depthMax} levels.`);
  for (const [name, inner] of Object.entries(value)) {
    const where = path === '' ? name : `${path}.${name}`;
    if (!isValidText(name)) return path;
    const found = findInvalidText(inner, where, depth + 1);
    if (found !== null) return found;
  }
  return null;
}

const isValidText = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

function countHeader(rawHeaders: readonly string[], name: string): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const one = rawHeaders[at]!;
    if (one.length === name.length && one.toLowerCase() === name) count++;
  }
  return count;
}
