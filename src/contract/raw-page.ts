import type { Window } from '../base/window.ts';

/** What a request of the tick route was sent for; see collector/paging/window-bisection.ts. Times are epoch milliseconds. */
export interface TickRequestPurpose {
  readonly origin: Origin;
  /** The window that the answer was to speak for; the one in the request may be wider or narrower by its edges. */
  readonly asked: Window;
  /** `probe`: which side of `asked`, a stretch with ticks at both ends, the service keeps. */
  readonly kind: 'whole' | 'low' | 'high' | 'earlier' | 'probe' | 'recheck';
  /** For low and high: the answer that may have left something out. */
  readonly parent?: {
    readonly count: number;
    readonly first: number;
    readonly last: number;
    readonly observedAt: number;
  };
}

/** What was asked. */
export type RawRequest =
  | {
      readonly route: 'ticks';
      readonly symbol: string;
      readonly from: number;
      readonly to: number;
      readonly limit: number;
      /** Null for a request that was to bring no ticks. */
      readonly meaning: TickRequestPurpose | null;
    }
  | {
      readonly route: 'markets';
      readonly view: string | null;
      readonly source: string | null;
      readonly limit: number | null;
    }
  | { readonly route: 'orderbook'; readonly symbol: string };

/** All that is known of an answer but its bytes. Times are epoch milliseconds. */
export interface RawPageHead {
  readonly run: string;
  readonly asked: RawRequest;
  /** When whoever asked turned to the client: what an answer that does not say when it was generated is dated by. */
  readonly askedAt: number;
  readonly receivedAt: number;
  /** When it left the service, by its Date header; null where it has none. */
  readonly servedAt: number | null;
  readonly status: number;
  /** Whether the key stood in the body, and was taken out. */
  readonly redacted: boolean;
}

/** An answer as it came, decompressed and not decoded. */
export interface RawPage extends RawPageHead {
  readonly body: Uint8Array;
}

const newline = 0x0a;

/** The bytes of some answers: of each a line of JSON with its head and the length of its body, the body, a line's end. */
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
 * The answers that `encodeRawPages` wrote.
 * @throws SyntaxError for anything else
 */
export function decodeRawPages(bytes: Uint8Array): RawPage[] {
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const pages: RawPage[] = [];
  for (let at = 0; at < whole.length; ) {
    const lineEnd = whole.indexOf(newline, at);
    if (lineEnd < 0) throw new SyntaxError('a head without an end');
    const { bytes: length, ...head } = parseHead(JSON.parse(whole.toString('utf8', at, lineEnd)));
    const bodyEnd = lineEnd + 1 + length;
    if (whole[bodyEnd] !== newline) throw new SyntaxError('a body of another length than its head says');
    pages.push({ ...head, body: whole.subarray(lineEnd + 1, bodyEnd) });
    at = bodyEnd + 1;
  }
  return pages;
}

type JsonObject = Readonly<Record<string, unknown>>;

function parseHead(value: unknown): RawPageHead & { readonly bytes: number } {
  const head = requireObject(value);
  const { run, askedAt, receivedAt, servedAt, status, redacted, bytes } = head;
  const whole = [askedAt, receivedAt, status, bytes].every((n) => Number.isSafeInteger(n) && (n as number) >= 0);
  if (
    typeof run !== 'string' ||
    typeof redacted !== 'boolean' ||
    !whole ||
    !(servedAt === null || isSafeInteger(servedAt))
  )
    throw new SyntaxError('a head with flaws');
  return { ...(head as unknown as RawPageHead & { bytes: number }), asked: parseRawRequest(requireObject(head.asked)) };
}

function parseRawRequest(asked: JsonObject): RawRequest {
  const { route, symbol, from, to, limit, view, source, meaning } = asked;
  if (route === 'markets' && isStringOrNull(view) && isStringOrNull(source) && (limit === null || isSafeInteger(limit)))
    return { route, view, source, limit };
  if (route === 'orderbook' && typeof symbol === 'string') return { route, symbol };
  if (route === 'ticks' && typeof symbol === 'string' && isTime(from) && isTime(to) && isSafeInteger(limit))
    return { route, symbol, from, to, limit, meaning: meaning === null ? null : parsePurpose(requireObject(meaning)) };
  throw new SyntaxError('a question that is not known');
}

const origins: readonly unknown[] = ['poll', 'backfill', 'import'] satisfies Origin[];
const purposeKinds: readonly unknown[] = [
  'whole',
  'low',
  'high',
  'earlier',
  'probe',
  'recheck',
] satisfies TickRequestPurpose['kind'][];

function parsePurpose({ origin, asked, kind, parent }: JsonObject): TickRequestPurpose {
  const { from, to } = requireObject(asked);
  const told =
    parent === undefined ? [] : ['count', 'first', 'last', 'observedAt'].map((name) => requireObject(parent)[name]);
  if (!origins.includes(origin) || !purposeKinds.includes(kind) || ![from, to, ...told].every(isTime))
    throw new SyntaxError('a meaning that is not known');
  const known = { origin, asked: { from, to }, kind } as TickRequestPurpose;
  return parent === undefined ? known : { ...known, parent: parent as NonNullable<TickRequestPurpose['parent']> };
}

function requireObject(value: unknown): JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new SyntaxError('not an object');
  return value as JsonObject;
}

const isSafeInteger = (value: unknown): value is number => Number.isSafeInteger(value);
/** Windows come of settings, too, in which a minute may be cut into any parts. */
const isTime = (value: unknown): value is number => Number.isFinite(value);
const isStringOrNull = (value: unknown): value is string | null => value === null || typeof value === 'string';

/** Who asked: the running poll, a backfill of the past, or an import of files. */
export type Origin = 'poll' | 'backfill' | 'import';
