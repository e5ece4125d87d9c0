import type { FastifyInstance } from 'fastify';
import { ProblemError } from './problem-details.ts';

/** Strings, punctuation, and everything else of valid JSON; whitespace is skipped. */
const tokenPattern = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;

/** An object or array that is not closed yet. */
interface OpenValue {
  /** The path of the value, such as `a.b.0`. */
  readonly path: string;
  /** The keys so far; null for an array. */
  readonly keys: Set<string> | null;
  /** The last key of an object, or the index of the current element of an array. */
  position: string | number;
  /** Whether the next string is a key. */
  isKeyNext: boolean;
}

/**
 * Finds the first key that an object has twice, at any depth. JSON.parse keeps the last value of such a key, other parsers
 * the first (RFC 8259, section 4): what the sender meant is unknown. Keys are compared after their escapes are decoded.
 * @param text valid JSON
 * @returns the path of the key, such as `grid.0.name`; null if there is none
 */
export function findRepeatedKey(text: string): string | null {
  const open: OpenValue[] = [];
  const join = ({ path, position }: OpenValue): string => (path === '' ? String(position) : `${path}.${position}`);
  for (const [token] of text.matchAll(tokenPattern)) {
    const current = open.at(-1);
    if (token === '{' || token === '[') {
      const path = current === undefined ? '' : join(current);
      open.push({ path, keys: token === '{' ? new Set() : null, position: 0, isKeyNext: token === '{' });
    } else if (token === '}' || token === ']') open.pop();
    else if (current === undefined) continue;
    else if (token === ',') {
      if (current.keys !== null) current.isKeyNext = true;
      else current.position = (current.position as number) + 1;
    } else if (current.keys !== null && current.isKeyNext) {
      current.position = JSON.parse(token) as string;
      current.isKeyNext = false;
      if (current.keys.has(current.position)) return join(current);
      current.keys.add(current.position);
    }
  }
  return null;
}

/** Accepts bodies of JSON only, as the framework parses it, and rejects those with a repeated key. */
export function acceptJsonBodies(app: FastifyInstance): void {
  app.removeContentTypeParser(['text/plain', 'application/json']);
  const parse = app.getDefaultJsonParser('error', 'error');
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, text, done) => {
    parse(request, text, (error, value) => {
      if (error !== null) return done(error);
      const path = findRepeatedKey(text);
      if (path === null) return done(null, value);
      const errors = [{ name: path, reason: 'is given more than once' }];
      done(new ProblemError(400, 'The body has a key more than once.', { code: 'invalid_body', errors }));
    });
  });
}
