import { priceFormulaPattern } from '../base/price-formula.ts';
import type { Window } from '../base/window.ts';

/** The purpose of a request to the tick route; see collector/paging/window-bisection.ts. Times are epoch milliseconds. */
export interface TickRequestPurpose {
  readonly origin: Origin;
  /** The window that the response should cover. The bounds of the request may differ from it. */
  readonly asked: Window;
  readonly kind: 'whole' | 'low' | 'high' | 'earlier' | 'recheck';
  /** For low and high: the response that may be truncated. */
  readonly parent?: {
    readonly count: number;
    readonly first: number;
    readonly last: number;
    readonly observedAt: number;
  };
}

/** The parameters of a recorded request. */
export type RawRequest =
  | {
      readonly route: 'ticks';
      readonly symbol: string;
      readonly from: number;
      readonly to: number;
      readonly limit: number;
      /** Null for a request that is not meant to fetch ticks. */
      readonly meaning: TickRequestPurpose | null;
    }
  | {
      readonly route: 'markets';
      readonly view: string | null;
      readonly source: string | null;
      readonly limit: number | null;
    }
  | { readonly route: 'orderbook'; readonly symbol: string };

/** The metadata of a response. Times are epoch milliseconds. */
export interface RawPageHead {
  readonly run: string;
  /** The source that sent it, of an archive's several; the names in the request and in the body are its own. */
  readonly source?: string;
  /** How a price is made of one in the body; absent: it is that one. See base/price-formula.ts. */
  readonly price?: string;
  readonly asked: RawRequest;
  /** When the request was passed to the client. It is the time of observation if the response does not state `generated_at`. */
  readonly askedAt: number;
  readonly receivedAt: number;
  /** When the response was sent, from its Date header; null without that header. */
  readonly servedAt: number | null;
  readonly status: number;
  /** Whether the API key occurred in the body and was removed. */
  readonly redacted: boolean;
}

/** A response as received, decompressed and not decoded. */
export interface RawPage extends RawPageHead {
  readonly body: Uint8Array;
}

const newline = 0x0a;

/** Encodes responses. Each one is a line of JSON with the head and the length of the body, then the body and a line feed. */
export function encodeRawPages(pages: readonly RawPage[]): Buffer {
  return Buffer.concat(
    pages.flatMap(({ body, ...head }) => [
      Buffer.from(`${JSON.stringify({ ...head, bytes: body.length })}\n`, 'utf8'),
      body,
      Buffer.of(newline),
    ]),
  );
}

/**
 * Decodes what `encodeRawPages` wrote.
 * @throws SyntaxError if the bytes are malformed
 */
export function decodeRawPages(bytes: Uint8Array): RawPage[] {
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const pages: RawPage[] = [];
  for (let at = 0; at < whole.length; ) {
    const lineEnd = whole.indexOf(newline, at);
    if (lineEnd < 0) throw new SyntaxError('a head line is not terminated');
    const { bytes: length, ...head } = parseHead(JSON.parse(whole.toString('utf8', at, lineEnd)));
    const bodyEnd = lineEnd + 1 + length;
    if (whole[bodyEnd] !== newline) throw new SyntaxError('the length of a body differs from that in its head');
    pages.push({ ...head, body: whole.subarray(lineEnd + 1, bodyEnd) });
    at = bodyEnd + 1;
  }
  return pages;
}

type JsonObject = Readonly<Record<string, unknown>>;

function parseHead(value: unknown): RawPageHead & { readonly bytes: number } {
  const head = requireObject(value);
  const { run, source, price, askedAt, receivedAt, servedAt, status, redacted, bytes } = head;
  const whole = [askedAt, receivedAt, status, bytes].every((n) => Number.isSafeInteger(n) && (n as number) >= 0);
  if (
    typeof run !== 'string' ||
    !(source === undefined || typeof source === 'string') ||
    !(price === undefined || (typeof price === 'string' && new RegExp(priceFormulaPattern, 'u').test(price))) ||
    typeof redacted !== 'boolean' ||
    !whole ||
    !(servedAt === null || isSafeInteger(servedAt))
  )
    throw new SyntaxError('a head has missing or invalid fields');
  return { ...(head as unknown as RawPageHead & { bytes: number }), asked: parseRawRequest(requireObject(head.asked)) };
}

function parseRawRequest(asked: JsonObject): RawRequest {
  const { route, symbol, from, to, limit, view, source, meaning } = asked;
  if (route === 'markets' && isStringOrNull(view) && isStringOrNull(source) && (limit === null || isSafeInteger(limit)))
    return { route, view, source, limit };
  if (route === 'orderbook' && typeof symbol === 'string') return { route, symbol };
  if (route === 'ticks' && typeof symbol === 'string' && isTime(from) && isTime(to) && isSafeInteger(limit))
    return { route, symbol, from, to, limit, meaning: meaning === null ? null : parsePurpose(requireObject(meaning)) };
  throw new SyntaxError('unknown request');
}

const origins: readonly unknown[] = ['poll', 'backfill', 'import'] satisfies Origin[];
const purposeKinds: readonly unknown[] = [
  'whole',
  'low',
  'high',
  'earlier',
  'recheck',
] satisfies TickRequestPurpose['kind'][];

function parsePurpose({ origin, asked, kind, parent }: JsonObject): TickRequestPurpose {
  const { from, to } = requireObject(asked);
  const parentTimes =
    parent === undefined ? [] : ['count', 'first', 'last', 'observedAt'].map((name) => requireObject(parent)[name]);
  if (!origins.includes(origin) || !purposeKinds.includes(kind) || ![from, to, ...parentTimes].every(isTime))
    throw new SyntaxError('unknown meaning');
  const purpose = { origin, asked: { from, to }, kind } as TickRequestPurpose;
  return parent === undefined ? purpose : { ...purpose, parent: parent as NonNullable<TickRequestPurpose['parent']> };
}

function requireObject(value: unknown): JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new SyntaxError('expected an object');
  return value as JsonObject;
}

const isSafeInteger = (value: unknown): value is number => Number.isSafeInteger(value);
/** Windows can be computed from settings in minutes, so their ends may be fractions of a millisecond. */
const isTime = (value: unknown): value is number => Number.isFinite(value);
const isStringOrNull = (value: unknown): value is string | null => value === null || typeof value === 'string';

/** The kind of job that fetched a window. */
export type Origin = 'poll' | 'backfill' | 'import';

/**
 * Why a window counts as covered: the response stated the ends of its window, other responses bear witness to it, it was empty
 * on three nights, the user declared it, or it is only inferred.
 */
export const evidenceKinds = ['stated', 'confirmed', 'repeated', 'declared', 'inferred'] as const;
