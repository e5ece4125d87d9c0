import type { FastifyRequest } from 'fastify';
import type { ServiceLimits } from './connection-limits.ts';
import { ProblemError } from './problem-details.ts';

/** Methods whose requests have no body. */
const bodylessMethods = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE']);

/** Rejects requests that no route accepts, before any other processing. */
export function requireValidRequest(request: FastifyRequest, { targetBytesMax }: ServiceLimits): void {
  const { headers, rawHeaders, method, url = '', httpVersion } = request.raw;
  if (url.length > targetBytesMax) throw new ProblemError(414, `The path and query exceed ${targetBytesMax} bytes.`);
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    throw new ProblemError(400, 'This is not an HTTP/1.1 request.', { headers: { connection: 'close' } });
  const hosts = countHeader(rawHeaders, 'host');
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1'))
    throw new ProblemError(400, 'A request must have exactly one Host header.');
  if (countHeader(rawHeaders, 'authorization') > 1)
    throw new ProblemError(400, 'A request must have at most one Authorization header.');
  if (!url.startsWith('/') && !(url === '*' && method === 'OPTIONS'))
    throw new ProblemError(400, 'The target of a request must be a path.');
  const hasBody = headers['transfer-encoding'] !== undefined || !/^0*$/.test(headers['content-length']?.trim() ?? '');
  if (!hasBody) {
    // Some clients send a Content-Type without a body.
    if (bodylessMethods.has(method ?? '')) delete headers['content-type'];
    return;
  }
  // The body is not read, so the connection cannot be reused.
  const close = { headers: { connection: 'close' } };
  if (bodylessMethods.has(method ?? '')) throw new ProblemError(400, `${method} must not have a body.`, close);
  const coding = headers['content-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'identity')
    throw new ProblemError(415, 'A body must not have a content encoding.', {
      headers: { ...close.headers, 'accept-encoding': 'identity' },
    });
}

/** @throws ProblemError 400 if text in the body cannot be stored because it contains a lone surrogate or NUL */
export function requireValidBodyText(body: unknown): void {
  const invalidPath = findInvalidText(body, '');
  if (invalidPath === null) return;
  throw new ProblemError(400, 'The body contains text that cannot be stored.', {
    code: 'invalid_body',
    errors: [{ name: invalidPath, reason: 'contains a NUL character or a lone surrogate' }],
  });
}

/** Maximum nesting of a body: bodies are small, but the sender chooses their depth. */
const depthMax = 32;

function findInvalidText(value: unknown, path: string, depth = 0): string | null {
  if (typeof value === 'string') return isValidText(value) ? null : path;
  if (typeof value !== 'object' || value === null) return null;
  if (depth >= depthMax)
    throw new ProblemError(400, `The body is nested deeper than ${depthMax} levels.`, { code: 'invalid_body' });
  for (const [name, inner] of Object.entries(value)) {
    const innerPath = path === '' ? name : `${path}.${name}`;
    if (!isValidText(name)) return path;
    const invalidPath = findInvalidText(inner, innerPath, depth + 1);
    if (invalidPath !== null) return invalidPath;
  }
  return null;
}

const isValidText = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

function countHeader(rawHeaders: readonly string[], name: string): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const headerName = rawHeaders[at]!;
    if (headerName.length === name.length && headerName.toLowerCase() === name) count++;
  }
  return count;
}

/** Key under which the error of an invalid query is stored, because the router's parser must not throw. */
const parseErrorSymbol = Symbol('fault');

export type ParsedQuery = Record<string, string | string[]> & { [parseErrorSymbol]?: ProblemError };

/** Decodes the parameters of a query strictly; a repeated one is a list. `requireParsedQuery` throws its errors. */
export function parseQueryString(text: string, parametersMax: number): ParsedQuery {
  // Without a prototype, so that `__proto__` is an ordinary name.
  const query = Object.create(null) as ParsedQuery;
  const pairs = text.split('&', parametersMax + 2).filter((pair) => pair !== '');
  if (pairs.length > parametersMax) {
    query[parseErrorSymbol] = new ProblemError(400, `The query has more than ${parametersMax} parameters.`, {
      code: 'invalid_parameter',
    });
    return query;
  }
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    const name = decodeComponent(at < 0 ? pair : pair.slice(0, at));
    const value = at < 0 ? '' : decodeComponent(pair.slice(at + 1));
    if (name === null || value === null) {
      query[parseErrorSymbol] ??= new ProblemError(400, 'The query is not percent-encoded UTF-8.', {
        code: 'invalid_parameter',
      });
    } else if (name.includes(nullCharacter) || value.includes(nullCharacter)) {
      const errors = name.includes(nullCharacter) ? {} : { errors: [{ name, reason: 'contains a NUL character' }] };
      query[parseErrorSymbol] ??= new ProblemError(400, 'A parameter contains a NUL character.', {
        code: 'invalid_parameter',
        ...errors,
      });
    } else {
      const before = query[name];
      query[name] = before === undefined ? value : [before, value].flat();
    }
  }
  return query;
}

/** @throws ProblemError 400 if the query is invalid or repeats a parameter that is not declared as a list */
export function requireParsedQuery(
  query: ParsedQuery,
  properties: Readonly<Record<string, ParameterSchema>> = {},
): void {
  const thrown = query[parseErrorSymbol];
  if (thrown !== undefined) throw thrown;
  const repeated = Object.entries(query).filter(
    ([name, value]) => Array.isArray(value) && !(Object.hasOwn(properties, name) && isRepeatable(properties[name]!)),
  );
  if (repeated.length > 0) {
    throw new ProblemError(400, 'A parameter is given more than once.', {
      code: 'invalid_parameter',
      errors: repeated.map(([name]) => ({ name, reason: 'is given more than once' })),
    });
  }
}

/** Stored texts contain no NUL. Symbols may contain other control characters. */
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
  readonly type?: string | readonly string[];
}

/** Whether a parameter may be given more than once. */
const isRepeatable = ({ type = [] }: ParameterSchema): boolean => [type].flat().includes('array');

/** Numbers in plain notation: no exponent, plus sign or space, and exactly representable as a double. */
const integerPattern = /^(0|-?[1-9]\d{0,15})$/;
const decimalPattern = /^-?(0|[1-9]\d{0,15})(\.\d{1,17})?$/;

/**
 * Converts the parameters that the schema declares as numbers or booleans. A text that cannot be converted stays a text,
 * which validation then rejects; so does a list of a repeated parameter.
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
