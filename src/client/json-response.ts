/**
 * The body of a response is not what was requested. A retry may succeed. `message` completes "answered 200 with …": a noun
 * phrase, without any part of the body except for short names.
 */
export class UnreadableResponseError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UnreadableResponseError';
  }
}

/**
 * Decodes the text of a response. A byte order mark is dropped.
 * @throws UnreadableResponseError for invalid UTF-8: U+FFFD in a symbol or price would be a silent change
 */
export function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UnreadableResponseError('text that is not UTF-8');
  }
}

/**
 * Parses a response as one JSON object.
 * @throws UnreadableResponseError for anything else, without JSON.parse's message, which quotes the body
 */
export function parseObject(text: string): Record<string, unknown> {
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new UnreadableResponseError('JSON that is not an object');
  }
  return value as Record<string, unknown>;
}

/**
 * Parses a response as one JSON object or array.
 * @throws UnreadableResponseError for anything else, like parseObject
 */
export function parseObjectOrList(text: string): object {
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null)
    throw new UnreadableResponseError('JSON that is not an object or array');
  return value;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new UnreadableResponseError(text.trim() === '' ? 'an empty body' : 'broken JSON');
  }
}

/** Integers that a double holds exactly. Anything else, text included, counts as absent. */
export function toIntegerOrNull(value: unknown): number | null {
  return Number.isSafeInteger(value) ? (value as number) : null;
}
