import type { FastifyRequest } from 'fastify';
import type { ServiceLimits } from './connection-limits.ts';
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

/** Under this name stands what is wrong with a query as a whole; the router's parser must not throw. */
const parseErrorSymbol = Symbol('fault');

export type ParsedQuery = Record<string, string | string[]> & { [parseErrorSymbol]?: ProblemError };

/** A query's parameters, decoded strictly: a repeated one is a list; what cannot be read is told by `requireParsedQuery`. */
export function parseQueryString(text: string, parametersMax: number): ParsedQuery {
  // Without a prototype, so that `__proto__` is a name as any other.
  const query = Object.create(null) as ParsedQuery;
  const pairs = text.split('&', parametersMax + 2).filter((pair) => pair !== '');
  if (pairs.length > parametersMax) {
    query[parseErrorSymbol] = new ProblemError(400, `A request has at most ${parametersMax} parameters.`);
    return query;
  }
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    const name = decodeComponent(at < 0 ? pair : pair.slice(0, at));
    const value = at < 0 ? '' : decodeComponent(pair.slice(at + 1));
    if (name === null || value === null) {
      query[parseErrorSymbol] ??= new ProblemError(400, 'The query is not percent-encoded UTF-8.');
    } else if (name.includes(nullCharacter) || value.includes(nullCharacter)) {
      const errors = name.includes(nullCharacter) ? {} : { errors: [{ name, reason: 'holds a NUL character' }] };
      query[parseErrorSymbol] ??= new ProblemError(400, 'A parameter holds a NUL character.', errors);
    } else {
      const before = query[name];
      query[name] = before === undefined ? value : [before, value].flat();
    }
  }
  return query;
}

/** @throws ProblemError 400 where the query cannot be read, or names a parameter twice */
export function requireParsedQuery(query: ParsedQuery): void {
  const thrown = query[parseErrorSymbol];
  if (thrown !== undefined) throw thrown;
  const repeated = Object.entries(query).filter(([, value]) => Array.isArray(value));
  if (repeated.length > 0) {
    throw new ProblemError(400, 'A parameter is given more than once.', {
      errors: repeated.map(([name]) => ({ name, reason: 'is given more than once' })),
    });
  }
}

/** No text of ours holds one; any other control character may stand in a symbol. */
const nullCharacter = '\u0000';

function decodeComponent(text: string): string | null {
  if (!/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}

interface ParameterSchema {
  readonly type?: string;
}

/** Numbers as one writes them by hand: no exponent, no sign but minus, no blank, and exact as a double. */
const integerPattern = /^(0|-?[1-9]\d{0,15})$/;
const decimalPattern = /^-?(0|[1-9]\d{0,15})(\.\d{1,17})?$/;

/**
 * The parameters of a query with those that its schema calls numbers or booleans turned into such; a text that is none
 * stays as it is, and the validation then says so. One that is repeated is a list, which no parameter of ours may be.
 */
export function coerceQuery(
  query: Readonly<Record<string, unknown>>,
  properties: Readonly<Record<string, ParameterSchema>>,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => [
      name,
      typeof value === 'string' && Object.hasOwn(properties, name) ? coerceValue(value, properties[name]!) : value,
    ]),
  );
}

function coerceValue(text: string, { type }: ParameterSchema): unknown {
  if (type === 'integer') return integerPattern.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : text;
  if (type === 'number') return decimalPattern.test(text) ? Number(text) : text;
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text;
  return text;
}
