import { LRUCache } from 'lru-cache';
import { openTickReader, type TickRangeResult, type TickSlice } from '../../archive/read/read-ticks.ts';
import { exitCodes, OddslakeError } from '../../base/errors.ts';
import { paths } from '../../contract/paths.ts';
import { type DeclaredGap, TicksQuery, TicksResponse } from '../../contract/schemas.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { createUnknownSymbolError, ProblemError, requireWindow } from '../http/problem-details.ts';

/** Prices of so many steps from 0 to 1 have their texts kept: those of nearly all ticks. */
const priceSteps = 10_000;

/** Bytes that are kept to write texts in; longer ones get their own. */
const scratchBytes = 1 << 20;

/** The longest item: 17 digits of time and 24 characters of price with what stands around them. */
const itemBytesMax = 64;

const zeroCharCode = 48;
const commaCharCode = 44;
const itemPrefix = Buffer.from('{"t":');

/** Writes ticks as the items of a JSON array, as JSON.stringify would, the latest used texts kept in memory. */
export function createTickSerializer(bytesMax: number): (slice: TickSlice) => Uint8Array {
  const kept = new LRUCache<string, Uint8Array>({
    maxSize: Math.max(1, Math.floor(bytesMax)),
    sizeCalculation: (text, key) => text.length + 2 * key.length + 100,
  });
  const prices: (Uint8Array | undefined)[] = new Array(priceSteps + 1).fill(undefined);
  const scratch = new Uint8Array(scratchBytes);
  return (slice) => {
    const key = `${slice.from} ${slice.to} ${slice.key}`;
    const held = kept.get(key);
    if (held !== undefined) return held;
    const text = serializeSlice(slice, prices, scratch);
    kept.set(key, text);
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

/** Writes a whole number from 0 to 2^53 in digits; returns where it ends. */
function writeInteger(out: Uint8Array, at: number, value: number): number {
  let digits = 1;
  for (let bound = 10; bound <= value; bound *= 10) digits++;
  // Two halves: whole numbers below 2^31 are divided far faster.
  let high = Math.floor(value / 10_000_000);
  let low = value - high * 10_000_000;
  let place = at + digits - 1;
  for (let k = 0; k < 7 && place >= at; k++) {
    const rest = (low / 10) | 0;
    out[place--] = zeroCharCode + low - rest * 10;
    low = rest;
  }
  for (; place >= at; ) {
    const rest = (high / 10) | 0;
    out[place--] = zeroCharCode + high - rest * 10;
    high = rest;
  }
  return at + digits;
}

function toPriceBytes(price: number, prices: (Uint8Array | undefined)[]): Uint8Array {
  const step = Math.round(price * priceSteps);
  // The same double: then it has the same text.
  if (!(step >= 0 && step <= priceSteps && step / priceSteps === price)) return formatPriceBytes(price);
  const held = prices[step];
  if (held !== undefined) return held;
  const text = formatPriceBytes(price);
  prices[step] = text;
  return text;
}

/** What JSON.stringify writes of a number that is finite, as all that are published are; -0 is 0 in both. */
const formatPriceBytes = (price: number): Uint8Array => Buffer.from(`,"p":${price}}`, 'latin1');

/** Ticks of an answer whose request has no limit, where the service's cap is not less. */
const limitDefault = 1000;

const comma = Buffer.from(',');

/** `/api/v1/ticks`: the recent and the old ticks of one symbol, without a seam. */
export function registerTicksRoutes(app: App, { archive, current, files, settings, clock }: ServiceContext): void {
  const { cacheBytesMax, ticksLimitMax } = settings.service;
  // Half of what published files may take for decoded ticks, and half for texts that were sent.
  const readTicks = openTickReader(archive, current, files, cacheBytesMax / 2);
  const textOf = createTickSerializer(cacheBytesMax / 2);
  app.get(
    paths.ticks,
    {
      schema: {
        summary: 'The ticks of one symbol',
        description:
          'Ascending in time, each moment once: what is published and what is not yet, as one. From `from` on; or, without `from`, the latest before `to`. `from` and `to` of the answer are the window that it holds completely: where there is more than `limit`, it ends with the last tick given (without `from`: begins with the first), so that a client reads on from there. An answer looks at no more than 366 days that may hold ticks.',
        tags: ['realtime'],
        querystring: TicksQuery,
        response: { 200: TicksResponse },
      },
    },
    async (request, reply) => {
      const { symbol, from = null, to, limit = limitDefault } = request.query;
      requireWindow(from, to);
      const nowMs = clock.nowMs();
      const window = { symbol, from, to: Math.min(nowMs, to ?? nowMs), limit: Math.min(limit, ticksLimitMax) };
      const found = await readTicks(window).catch(throwUnavailable);
      if (found === null) throw createUnknownSymbolError();
      reply.type('application/json; charset=utf-8');
      // Bytes are sent as they are: an object for each tick would take longer than finding them.
      return reply.send(serializeResponse(symbol, found, textOf, nowMs) as unknown as TicksResponse);
    },
  );
}

function serializeResponse(
  symbol: string,
  { slices, count, from, to, gaps }: TickRangeResult,
  textOf: ReturnType<typeof createTickSerializer>,
  nowMs: number,
): Buffer {
  const holes = gaps.length === 0 ? '' : `,"gaps":${JSON.stringify(gaps satisfies readonly DeclaredGap[])}`;
  const pieces: Uint8Array[] = [Buffer.from(`{"symbol":${JSON.stringify(symbol)},"ticks":[`)];
  for (const [i, slice] of slices.entries()) {
    if (i > 0) pieces.push(comma);
    pieces.push(textOf(slice));
  }
  pieces.push(Buffer.from(`],"count":${count},"from":${from},"to":${to},"generated_at":${nowMs}${holes}}`));
  return Buffer.concat(pieces);
}

function throwUnavailable(error: unknown): never {
  if (error instanceof OddslakeError && error.exitCode === exitCodes.busy)
    throw new ProblemError(503, 'The archive is being written too fast to be read; try again.', {
      headers: { 'retry-after': '1' },
    });
  throw error;
}
