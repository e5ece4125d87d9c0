import type { RejectedInput } from '../base/ticks.ts';
import { isEmpty, type Window } from '../base/window.ts';
import { evidenceKinds } from '../contract/raw-page.ts';
import { findDetailText } from './classify-error.ts';
import { type ColumnBuffers, decodeCompactPage } from './fast-page-decoder.ts';
import {
  decodeText,
  parseObject,
  parseObjectOrList,
  toIntegerOrNull,
  UnreadableResponseError,
} from './response-body.ts';
import type { DecodedTickPage, MarketsPage, OrderbookResponse, StatedCoverage } from './upstream.ts';

/**
 * Decodes a response of GET /api/v1/ticks from its bytes (UTF-8 JSON, decompressed).
 *
 * Prices are the doubles that JSON.parse returns. Times are not validated: a `t` of 1.5 or in the year 9999 is passed on.
 * @param expectedSymbol the expected symbol, unless the page states none; omit it to accept any
 * @param buffers the columns may be in these buffers, and are valid until they are passed in again
 * @throws UnreadableResponseError for invalid UTF-8 or JSON, a stated error, a missing `ticks` array, another symbol, a wrong
 * count, and what `checkFields` throws
 */
export function decodeTickPage(
  bytes: Uint8Array,
  expectedSymbol?: string,
  buffers?: ColumnBuffers,
  checkFields?: FieldCheck,
): DecodedTickPage {
  const compact = decodeCompactPage(bytes, buffers);
  // Its layout contains all fields.
  if (compact !== undefined) checkFields?.([], compact.received);
  const page = compact ?? decodeJsonPage(bytes, checkFields);
  if (expectedSymbol !== undefined && page.symbol !== null && page.symbol !== expectedSymbol) {
    throw new UnreadableResponseError(`ticks of another symbol, ${JSON.stringify(page.symbol.slice(0, 80))}`);
  }
  return page;
}

/**
 * Decodes a response of GET /api/v1/markets. Records are kept as received.
 * @throws UnreadableResponseError for invalid UTF-8 or JSON, a stated error, a missing `markets` array, and what
 * `checkFields` throws
 */
export function decodeMarketsPage(bytes: Uint8Array, checkFields?: FieldCheck): MarketsPage {
  const page = parseObject(decodeText(bytes));
  const markets = requireArray(page, 'markets');
  checkFields?.(listAbsent(page, ['count', 'total', 'view', 'generated_at']), markets.length);
  return { markets, total: toIntegerOrNull(page.total), generatedAt: readDataTime(page) };
}

/**
 * Decodes a page of GET /api/v1/historical/coverage of another oddslake, and the cursor of the next one.
 * @param since where the page before ends, epoch ms
 * @throws UnreadableResponseError for what is not a page of the symbol's ticks that continues there
 */
export function decodeCoveragePage(bytes: Uint8Array, symbol: string, since: number) {
  const page = parseObject(decodeText(bytes));
  const rows = requireArray(page, 'coverage');
  const { next_cursor: next } = page;
  if (!(next === null || (typeof next === 'string' && rows.length > 0)))
    throw new UnreadableResponseError('coverage without a usable next_cursor');
  let end = since;
  const windows = rows.map((row): StatedCoverage => {
    const fields = Object(row) as JsonFields;
    const [from, to, fetchedAt] = [fields.t_from, fields.t_to, fields.fetched_at] as [number, number, number];
    const areTimes = [from, to, fetchedAt].every(Number.isSafeInteger) && end <= from && from < to;
    const evidence = evidenceKinds.find((kind) => kind === fields.evidence);
    if (fields.dataset !== 'ticks' || fields.symbol !== symbol || evidence === undefined || !areTimes)
      throw new UnreadableResponseError('an invalid window of coverage');
    end = to;
    return { from, to, fetchedAt, evidence };
  });
  return { windows, next };
}

/**
 * Decodes a tick page in any layout with JSON.parse. This is the reference: decodeCompactPage is only faster.
 * @throws UnreadableResponseError like `decodeTickPage`; the `count` is wrong if it is an integer that differs from the
 * length of `ticks`
 */
export function decodeJsonPage(bytes: Uint8Array, checkFields?: FieldCheck): DecodedTickPage {
  const text = decodeText(bytes);
  const page = parseObject(text);
  const ticks = requireArray(page, 'ticks');
  if (Number.isInteger(page.count) && page.count !== ticks.length) {
    throw new UnreadableResponseError(`a count of ${page.count} over ${ticks.length} ticks`);
  }
  checkFields?.(listAbsent(page, ['symbol', 'count', 'from', 'to', 'generated_at']), ticks.length);
  return {
    ...toTickColumns(ticks, text),
    received: ticks.length,
    symbol: typeof page.symbol === 'string' ? page.symbol : null,
    from: toIntegerOrNull(page.from),
    to: toIntegerOrNull(page.to),
    generatedAt: toIntegerOrNull(page.generated_at),
    gaps: parseGaps(page.gaps),
  };
}

type JsonFields = Readonly<Record<string, unknown>>;

/**
 * Refuses a response with a success status that states an error: `error` or `errors`, unless it is empty, or `success: false`.
 * @throws UnreadableResponseError with the text of the error
 */
export function refuseStatedError(page: JsonFields): void {
  const error = [page.error, page.errors].find((value) => Boolean(value) && (value as unknown[]).length !== 0);
  if (error === undefined && page.success !== false) return;
  throw new UnreadableResponseError('an error', findDetailText(error) ?? findDetailText(page) ?? JSON.stringify(error));
}

function requireArray(page: JsonFields, name: string): unknown[] {
  refuseStatedError(page);
  const list = page[name];
  if (!Array.isArray(list)) throw new UnreadableResponseError(`no ${name} array`, findDetailText(page));
  return list;
}

/**
 * Called with the documented fields that a response lacks, and its number of records.
 * @throws UnreadableResponseError if it is not what the service usually sends
 */
export type FieldCheck = (absent: readonly string[], records: number) => void;

const listAbsent = (page: JsonFields, names: readonly string[]): string[] =>
  names.filter((name) => !Object.hasOwn(page, name));

/** So many responses with all documented fields are assumed to have come before an empty one. */
const assumedResponses = 4;

/**
 * Refuses responses of one route that lack a field which most responses before had: a server that fails may send empty lists
 * without the rest. A majority, so that bad responses at the beginning do not decide what is usual.
 */
export function createFieldCheck(): FieldCheck {
  let responses = 0;
  const absences = new Map<string, number>();
  return (absent, records) => {
    const before = responses + (records === 0 ? assumedResponses : 0);
    const unusual = absent.filter((name) => 2 * (absences.get(name) ?? 0) < before);
    responses++;
    for (const name of absent) absences.set(name, (absences.get(name) ?? 0) + 1);
    if (unusual.length > 0) throw new UnreadableResponseError(`no ${unusual.join(', ')}`);
  };
}

function toTickColumns(ticks: readonly unknown[], text: string) {
  const t = new Float64Array(ticks.length);
  const p = new Float64Array(ticks.length);
  const rejected: RejectedInput[] = [];
  let texts: string[] | undefined;
  let kept = 0;
  for (const [index, tick] of ticks.entries()) {
    const reason = findElementFlaw(tick);
    if (reason === undefined) {
      const { t: time, p: price } = tick as { t: number; p: number };
      t[kept] = time;
      p[kept++] = price;
    } else {
      texts ??= extractElementTexts(text, 'ticks');
      rejected.push({ reason, raw: texts[index]! });
    }
  }
  return { t: t.slice(0, kept), p: p.slice(0, kept), rejected };
}

function findElementFlaw(tick: unknown): string | undefined {
  if (typeof tick !== 'object' || tick === null || Array.isArray(tick)) return 'is not an object';
  const { t, p } = tick as Record<string, unknown>;
  return findNumberFlaw('t', t) ?? findNumberFlaw('p', p);
}

function findNumberFlaw(name: string, value: unknown): string | undefined {
  if (value === undefined) return `${name} is missing`;
  if (typeof value !== 'number') return `${name} is not a number`;
  return Number.isFinite(value) ? undefined : `${name} is not finite`;
}

/** Maximum number of gaps per response. If there are more, one gap from the first to the last replaces them. */
const gapsMax = 1_000;

/**
 * Parses `gaps` as {from, to} objects or [from, to] pairs, rounded outwards to whole milliseconds. The field is not
 * documented, so anything else is ignored.
 */
function parseGaps(value: unknown): Window[] {
  if (!Array.isArray(value)) return [];
  const gaps: Window[] = [];
  for (const item of value as unknown[]) {
    if (typeof item !== 'object' || item === null) continue;
    const { from, to } = Array.isArray(item)
      ? { from: item[0] as unknown, to: item[1] as unknown }
      : (item as Record<string, unknown>);
    if (!Number.isFinite(from) || !Number.isFinite(to)) continue;
    const gap = { from: Math.floor(from as number), to: Math.ceil(to as number) };
    if (!isEmpty(gap)) gaps.push(gap);
  }
  if (gaps.length <= gapsMax) return gaps;
  return [gaps.reduce((all, gap) => ({ from: Math.min(all.from, gap.from), to: Math.max(all.to, gap.to) }))];
}

/**
 * Returns the JSON text of each element of a top-level array field, exactly as received: JSON.stringify would turn 1e400
 * into null and drop repeated keys. `text` must be a valid JSON object whose last field named `key` is an array: JSON.parse
 * uses the last one, too. Counts brackets instead of recursing: a body may be nested more deeply than the stack allows.
 */
export function extractElementTexts(text: string, key: string): string[] {
  let texts: string[] = [];
  let depth = 0;
  let isInString = false;
  let isInField = false;
  // Where the current key or element begins.
  let start = 0;
  for (const { 0: mark, index } of text.matchAll(/\\.|["{}[\]:,]/gs)) {
    if (mark === '"') isInString = !isInString;
    if (isInString || mark === '"') continue;
    if (mark === '}' || mark === ']') depth--;
    if (depth === 1 && mark === ':') {
      isInField = JSON.parse(text.slice(start, index)) === key;
      if (isInField) texts = [];
    }
    if (isInField && ((depth === 1 && mark === ']') || (depth === 2 && mark === ','))) {
      const element = text.slice(start, index).trim();
      if (element !== '') texts.push(element);
    }
    if (mark === '{' || mark === '[') depth++;
    if (depth <= 2 && mark !== '}' && mark !== ']') start = index + 1;
  }
  return texts;
}

/** Maximum depth to which a response is searched for symbols. */
const depthMax = 5;

/**
 * Decodes a response of GET /api/v1/orderbook. Its shape is not documented, so the body is not interpreted.
 * @param expectedSymbol the expected symbol, unless the response states none
 * @throws UnreadableResponseError for invalid UTF-8 or JSON, a scalar, a stated error, a response with books of other symbols
 * only, and what `checkFields` throws
 */
export function decodeOrderbook(
  bytes: Uint8Array,
  expectedSymbol: string,
  checkFields?: FieldCheck,
): OrderbookResponse {
  const text = decodeText(bytes);
  const body = parseObjectOrList(text);
  if (!Array.isArray(body)) {
    refuseStatedError(body as JsonFields);
    checkFields?.(listAbsent(body as JsonFields, ['symbol']), 1);
  }
  const named = new Set<string>();
  collectSymbols(body, depthMax, named);
  if (named.size > 0 && !named.has(expectedSymbol)) {
    const [other] = named;
    throw new UnreadableResponseError(`an order book of another symbol, ${JSON.stringify(other!.slice(0, 80))}`);
  }
  return { body, text, generatedAt: readDataTime(body) };
}

/**
 * The time that the records of a response are as of: when it was generated or, from another oddslake, the earlier time of
 * its data. A copy must not date the data later than its source does.
 */
export function readDataTime(body: { readonly generated_at?: unknown; readonly data_time?: unknown }): number | null {
  const generatedAt = toIntegerOrNull(body.generated_at);
  const dataTime = toIntegerOrNull(body.data_time);
  return generatedAt === null || dataTime === null ? generatedAt : Math.min(generatedAt, dataTime);
}

function collectSymbols(value: object, depth: number, symbols: Set<string>): void {
  const { symbol } = value as { symbol?: unknown };
  if (typeof symbol === 'string') symbols.add(symbol);
  if (depth === 0) return;
  for (const member of Object.values(value)) {
    if (typeof member === 'object' && member !== null) collectSymbols(member as object, depth - 1, symbols);
  }
}
