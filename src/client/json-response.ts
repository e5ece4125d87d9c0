/**
 * Bytes arrived and are not what was asked for; the next try may do better. `message` completes
 * "answered 200 with …": a noun, never a piece of the body beyond a short name.
 */
export class UnreadableResponseError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UnreadableResponseError';
  }
}

/**
 * Text of an answer. A byte order mark is tolerated and dropped.
 * @throws UnreadableResponseError for bytes that are not UTF-8: U+FFFD in a symbol or price would be a silent change.
 */
export function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UnreadableResponseError('text that is not UTF-8');
  }
}

/**
 * The answer as one JSON object.
 * @throws UnreadableResponseError for anything else; without JSON.parse's own message, which quotes the body.
 */
export function parseObject(text: string): Record<string, unknown> {
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new UnreadableResponseError('JSON that is not an object');
  }
  return value as Record<string, unknown>;
}

/**
 * The answer as one JSON object or list.
 * @throws UnreadableResponseError for anything else, as parseObject
 */
export function parseObjectOrList(text: string): object {
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null) throw new UnreadableResponseError('JSON that is no object or list');
  return value;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new UnreadableResponseError(text.trim() === '' ? 'an empty body' : 'broken JSON');
  }
}

/** Whole numbers that doubles hold exactly; everything else, text included, counts as not stated. */
export function toIntegerOrNull(value: unknown): number | null {
  return Number.isSafeInteger(value) ? (value as number) : null;
}
