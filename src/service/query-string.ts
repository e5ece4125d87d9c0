import { ProblemError } from './problem-details.ts';

/** Under this name stands what is wrong with a query as a whole; the router's parser must not throw. */
const fault = Symbol('fault');

export type Query = Record<string, string | string[]> & { [fault]?: ProblemError };

/** A query's parameters, decoded strictly: a repeated one is a list; what cannot be read is told by `requireReadable`. */
export function parseQueryString(text: string, parametersMax: number): Query {
  // Without a prototype, so that `__proto__` is a name as any other.
  const query = Object.create(null) as Query;
  const pairs = text.split('&', parametersMax + 2).filter((pair) => pair !== '');
  if (pairs.length > parametersMax) {
    query[fault] = new ProblemError(400, `A request has at most ${parametersMax} parameters.`);
    return query;
  }
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    const name = decode(at < 0 ? pair : pair.slice(0, at));
    const value = at < 0 ? '' : decode(pair.slice(at + 1));
    if (name === null || value === null) {
      query[fault] ??= new ProblemError(400, 'The query is not percent-encoded UTF-8.');
    } else if (name.includes(nul) || value.includes(nul)) {
      const errors = name.includes(nul) ? {} : { errors: [{ name, reason: 'holds a NUL character' }] };
      query[fault] ??= new ProblemError(400, 'A parameter holds a NUL character.', errors);
    } else {
      const before = query[name];
      query[name] = before === undefined ? value : [before, value].flat();
    }
  }
  return query;
}

/** @throws ProblemError 400 where the query cannot be read, or names a parameter twice */
export function requireReadable(query: Query): void {
  const thrown = query[fault];
  if (thrown !== undefined) throw thrown;
  const repeated = Object.entries(query).filter(([, value]) => Array.isArray(value));
  if (repeated.length > 0) {
    throw new ProblemError(400, 'A parameter is given more than once.', {
      errors: repeated.map(([name]) => ({ name, reason: 'is given more than once' })),
    });
  }
}

/** No text of ours holds one; any other control character may stand in a symbol. */
const nul = '\u0000';

function decode(text: string): string | null {
  if (!/[%+]/.test(text)) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}
