import { LRUCache } from 'lru-cache';
import { openTickReader, type TickRangeResult, type TickSlice } from '../../archive/read/read-ticks.ts';
import { exitCodes, OddslakeError } from '../../base/errors.ts';
import { paths } from '../../contract/paths.ts';
import { stateLimitMax } from '../../contract/query-parameters.ts';
import { type DeclaredGap, TicksQuery, TicksResponse } from '../../contract/schemas.ts';
import { setDataTime } from '../http/data-time.ts';
import { createUnknownSymbolError, ProblemError, requireWindow } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import { isVisitor } from '../workspace/owner.ts';

/** Prices from 0 to 1 in this step have cached texts; nearly all ticks have such a price. */
const priceSteps = 10_000;

/** Size of the reusable output buffer; longer texts get their own. */
const scratchBytes = 1 << 20;

/** Longest item: 17 digits of time, 24 characters of price, and the JSON around them. */
const itemBytesMax = 64;

const zeroCharCode = 48;
const commaCharCode = 44;
const itemPrefix = Buffer.from('{"t":');

/** Writes ticks as the items of a JSON array, like JSON.stringify. Caches the most recently used texts. */
export function createTickSerializer(bytesMax: number): (slice: TickSlice) => Uint8Array {
  const cache = new LRUCache<string, Uint8Array>({
    maxSize: Math.max(1, Math.floor(bytesMax)),
    sizeCalculation: (text, key) => text.length + 2 * key.length + 100,
  });
  const prices: (Uint8Array | undefined)[] = new Array(priceSteps + 1).fill(undefined);
  const scratch = new Uint8Array(scratchBytes);
  return (slice) => {
    const key = `${slice.from} ${slice.to} ${slice.key}`;
    const cached = cache.get(key);
    if (cached !== undefined) return cached;
    const text = serializeSlice(slice, prices, scratch);
    cache.set(key, text);
    return text;
  };
}

function serializeSlice(
  { t, p, from, to }: TickSlice,
  prices: (Uint8Array | undefined)[],
  scratch: Uint8Array,
): Uint8Array {
  const bytes = (to - from) * itemBytesMax;
  const out = bytes <= scratch.length ? scratch : new Uint8Array(bytes);
  let at = 0;
  for (let i = from; i < to; i++) {
    if (i > from) out[at++] = commaCharCode;
    for (let k = 0; k < itemPrefix.length; k++) out[at++] = itemPrefix[k]!;
    at = writeInteger(out, at, t[i]!);
    const price = toPriceBytes(p[i]!, prices);
    for (let k = 0; k < price.length; k++) out[at++] = price[k]!;
  }
  return out.slice(0, at);
}

/** Writes an integer from 0 to 2^53 in digits; returns its end. */
function writeInteger(out: Uint8Array, at: number, value: number): number {
  let digits = 1;
  for (let bound = 10; bound <= value; bound *= 10) digits++;
  // In two halves, because division of integers below 2^31 is much faster.
  let high = Math.floor(value / 10_000_000);
  let low = value - high * 10_000_000;
  let position = at + digits - 1;
  for (let k = 0; k < 7 && position >= at; k++) {
    const rest = (low / 10) | 0;
    out[position--] = zeroCharCode + low - rest * 10;
    low = rest;
  }
  for (; position >= at; ) {
    const rest = (high / 10) | 0;
    out[position--] = zeroCharCode + high - rest * 10;
    high = rest;
  }
  return at + digits;
}

function toPriceBytes(price: number, prices: (Uint8Array | undefined)[]): Uint8Array {
  const step = Math.round(price * priceSteps);
  // The same double has the same text.
  if (!(step >= 0 && step <= priceSteps && step / priceSteps === price)) return formatPriceBytes(price);
  const cached = prices[step];
  if (cached !== undefined) return cached;
  const text = formatPriceBytes(price);
  prices[step] = text;
  return text;
}

/** Formats a finite number as JSON.stringify does; -0 is 0 in both. */
const formatPriceBytes = (price: number): Uint8Array => Buffer.from(`,"p":${price}}`, 'latin1');

/** Maximum number of ticks in a response without a limit parameter, unless the service's limit is lower. */
const limitDefault = 1000;

const comma = Buffer.from(',');

/** `/api/v1/ticks`: recent and older ticks of one symbol, published or not. */
export function registerTicksRoutes(app: App, context: ServiceContext): void {
  const { archive, current, files, settings, clock, live } = context;
  const { cacheBytesMax, ticksLimitMax } = settings.service;
  // Half of the cache is for decoded ticks, a quarter for serialized ones, and a quarter for pages of the history.
  const readTicks = openTickReader(archive, current, files, cacheBytesMax / 2);
  const textOf = createTickSerializer(cacheBytesMax / 4);
  app.get(
    paths.ticks,
    {
      config: { isCatalogue: true, data: { scope: 'read', datasets: ['ticks'] } },
      schema: {
        operationId: 'getTicks',
        summary: 'The ticks of one symbol',
        description:
          'Published and not yet published ticks, in ascending order of time and at most one per time: the first ones starting at `from`, or without `from` the latest ones before `to`. The `from` and `to` of the response are the window that it covers completely. If there are more ticks than `limit`, the window ends with the last tick returned (without `from`: starts with the first), so that a client can continue there. A request reads at most 366 days that may have ticks.',
        tags: ['realtime'],
        querystring: stateLimitMax(TicksQuery, ticksLimitMax),
        response: { 200: TicksResponse },
      },
    },
    async (request, reply) => {
      const { symbol, from = null, to, limit = limitDefault } = request.query;
      requireWindow(from, to);
      if (!isVisitor(request.principal))
        await live?.refreshTicks(symbol, Math.min(clock.nowMs(), to ?? Number.POSITIVE_INFINITY));
      const nowMs = clock.nowMs();
      const window = { symbol, from, to: Math.min(nowMs, to ?? nowMs), limit: Math.min(limit, ticksLimitMax) };
      const range = await readTicks(window).catch(throwUnavailable);
      if (range === null) throw createUnknownSymbolError();
      const dataTime = findDataTime(range);
      setDataTime(reply, dataTime);
      reply.type('application/json; charset=utf-8');
      // Send bytes: creating an object per tick would take longer than finding the ticks.
      return reply.send(serializeResponse(symbol, range, textOf, nowMs, dataTime) as unknown as TicksResponse);
    },
  );
}

/** The end of the covered part of the window: later ticks are not in the archive yet. Null if nothing is covered. */
function findDataTime({ from, to, gaps }: TickRangeResult): number | null {
  const last = gaps.at(-1);
  const end = last === undefined || last.to < to ? to : last.from;
  return end > from ? end : null;
}

function serializeResponse(
  symbol: string,
  { slices, count, from, to, gaps }: TickRangeResult,
  textOf: ReturnType<typeof createTickSerializer>,
  nowMs: number,
  dataTime: number | null,
): Buffer {
  const gapsJson = gaps.length === 0 ? '' : `,"gaps":${JSON.stringify(gaps satisfies readonly DeclaredGap[])}`;
  const chunks: Uint8Array[] = [Buffer.from(`{"symbol":${JSON.stringify(symbol)},"ticks":[`)];
  for (const [i, slice] of slices.entries()) {
    if (i > 0) chunks.push(comma);
    chunks.push(textOf(slice));
  }
  chunks.push(
    Buffer.from(
      `],"count":${count},"from":${from},"to":${to},"generated_at":${nowMs},"data_time":${dataTime}${gapsJson}}`,
    ),
  );
  return Buffer.concat(chunks);
}

function throwUnavailable(error: unknown): never {
  if (error instanceof OddslakeError && error.exitCode === exitCodes.busy)
    throw new ProblemError(503, 'The archive changes too fast to be read consistently. Try again.', {
      code: 'busy',
      headers: { 'retry-after': '1' },
    });
  throw error;
}
