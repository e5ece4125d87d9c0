import { ProblemError } from './problem-details.ts';

/** Under this name stands what is wrong with a query as a whole; the router's parser must not throw. */
const parseErrorSymbol = Symbol('fault');

export type ParsedQuery = Record<string, string | string[]> & { [parseErrorSymbol]?: ProblemError };

/** A query's parameters, decoded strictly: a repeated one is a list; what cannot be read is told by `requireReadable`. */
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
