import { getHeader, type ResponseHead } from './classify-error.ts';

/** Longest body in which an error's own words are looked for. */
export const detailBytesMax = 8 * 1024;
const detailCharsMax = 120;
const depthMax = 4;

/** Members that hold words for people, best first: RFC 9457, and what frameworks write in its place. */
const detailFieldNames = ['detail', 'title', 'message', 'msg', 'error', 'errors'];

/**
 * What the body of an error answer says: the words of a JSON object, or plain text. Undefined where it says nothing,
 * and always for HTML and redirects.
 */
export function extractErrorDetail(head: ResponseHead, bytes: Uint8Array): string | undefined {
  if (head.status < 400 || bytes.length > detailBytesMax) return undefined;
  const type = (getHeader(head, 'content-type') ?? '').split(';')[0]!.trim().toLowerCase();
  const isJson = /[/+]json$/.test(type);
  if (!isJson && type !== '' && type !== 'text/plain') return undefined;
  const text = decodeUtf8OrUndefined(bytes)?.trim() ?? '';
  const said = /^[{["]/.test(text) ? findDetailText(parseJsonOrUndefined(text), depthMax) : isJson ? undefined : text;
  return said === undefined || said === '' || looksLikeHtml(said) ? undefined : said;
}

/** Fit to be shown: one line, without the key, and short. */
export function sanitizeErrorDetail(said: string, apiKey: string): string {
  // Before the cut, which might leave a piece of the key; after the control characters, which might have hidden it.
  const line = said
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim()
    .replaceAll(apiKey, '[key]');
  const characters = [...line];
  return characters.length <= detailCharsMax ? line : `${characters.slice(0, detailCharsMax).join('')}…`;
}

function findDetailText(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return value.trim() === '' ? undefined : value;
  if (typeof value !== 'object' || value === null || depth === 0) return undefined;
  const members = Array.isArray(value)
    ? value.slice(0, 1)
    : detailFieldNames.map((name) =>
        Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined,
      );
  for (const member of members) {
    const words = findDetailText(member, depth - 1);
    if (words !== undefined) return words;
  }
  return undefined;
}

const looksLikeHtml = (text: string): boolean => text.trimStart().startsWith('<') || /<[/!]?[a-z][^<>]*>/i.test(text);

function decodeUtf8OrUndefined(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function parseJsonOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
