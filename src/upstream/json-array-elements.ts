/**
 * The JSON text of each element of a top-level array field, exactly as received: JSON.stringify would turn 1e400 into
 * null and drop repeated keys. `text` must be a valid JSON object whose last field named `key` is an array.
 */
export function extractElementTexts(text: string, key: string): string[] {
  const texts: string[] = [];
  let at = skipSpace(text, findLastValueStart(text, key) + 1);
  while (text[at] !== ']') {
    const end = skipValue(text, at);
    texts.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return texts;
}

/** Where the value of the last top-level field `key` starts: JSON.parse lets the last one win too. */
function findLastValueStart(text: string, key: string): number {
  let found = -1;
  let at = skipSpace(text, text.indexOf('{') + 1);
  while (text[at] !== '}') {
    const keyEnd = skipString(text, at);
    const name: unknown = JSON.parse(text.slice(at, keyEnd));
    at = skipSpace(text, skipSpace(text, keyEnd) + 1);
    if (name === key) found = at;
    at = skipSpace(text, skipValue(text, at));
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return found;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at++;
  return at;
}

function skipString(text: string, from: number): number {
  let at = from + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

/** Counts brackets instead of recursing: a body may nest deeper than the stack. */
function skipValue(text: string, from: number): number {
  let depth = 0;
  let at = from;
  do {
    const char = text[at];
    if (char === '"') at = skipString(text, at);
    else if (char === '{' || char === '[') {
      depth++;
      at++;
    } else if (char === '}' || char === ']') {
      depth--;
      at++;
    } else if (depth > 0) at++;
    else return skipScalar(text, at);
  } while (depth > 0);
  return at;
}

function skipScalar(text: string, from: number): number {
  let at = from;
  while (at < text.length && !',]} \n\r\t'.includes(text[at]!)) at++;
  return at;
}
