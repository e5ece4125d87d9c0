import { createRandom, hashNumber } from '../base/random.ts';
import type { TickColumns } from '../base/ticks.ts';
import { minuteMs, type Window } from '../base/window.ts';

/**
 * Layout of the JSON: `compact` is the documented order without spaces; the others are equally valid: `spaced` is
 * indented, `reordered` has other key orders, `extra` has undocumented keys, `exponent` writes prices as 4.7e-1.
 */
export const pageLayouts = ['compact', 'spaced', 'reordered', 'extra', 'exponent'] as const;

export type PageLayout = (typeof pageLayouts)[number];

/** Kind of an element of `ticks`: an unusable one has text as its price, an invalid one is not a tick. */
export type ElementKind = 'tick' | 'unusable' | 'invalid';

/** A response to GET /api/v1/ticks; null and undefined members are left out. */
export interface SandboxTickPage extends TickColumns {
  readonly symbol: string;
  readonly count: number;
  readonly from: number | null;
  readonly to: number | null;
  readonly generatedAt: number | null;
  /** Kind of each element; all are ticks by default. */
  readonly kinds?: readonly ElementKind[];
  readonly gaps?: readonly Window[];
}

export function formatTickPage(page: SandboxTickPage, layout: PageLayout): string {
  const { symbol, count } = page;
  const ends = { ...(page.from === null ? {} : { from: page.from }), ...(page.to === null ? {} : { to: page.to }) };
  const generated = page.generatedAt === null ? {} : { generated_at: page.generatedAt };
  const gaps = page.gaps === undefined ? {} : { gaps: page.gaps };
  switch (layout) {
    case 'compact':
      return formatCompactPage(page, String);
    case 'exponent':
      return formatCompactPage(page, (p) => p.toExponential());
    case 'spaced': {
      const ticks = toElements(page, (t, p) => ({ t, p }));
      return JSON.stringify({ symbol, ticks, count, ...ends, ...generated, ...gaps }, null, 2);
    }
    case 'reordered':
      return JSON.stringify({
        ...gaps,
        ...generated,
        ...ends,
        count,
        ticks: toElements(page, (t, p) => ({ p, t })),
        symbol,
      });
    case 'extra': {
      const ticks = toElements(page, (t, p) => ({ t, p, v: 3, venue: { id: 'a"]}', t: 1 } }));
      return JSON.stringify({ symbol, ticks, count, ...ends, ...generated, ...gaps, next: null, notes: ['{"t":0}'] });
    }
  }
}

const invalidElement = { type: 'heartbeat' };
const unusablePrice = '?';

function toElements(page: SandboxTickPage, row: (t: number, p: number | string) => object): object[] {
  return Array.from(page.t, (t, i) => {
    const kind = page.kinds?.[i] ?? 'tick';
    return kind === 'invalid' ? invalidElement : row(t, kind === 'unusable' ? unusablePrice : page.p[i]!);
  });
}

/** Concatenates strings: a page of 5,000 ticks takes a third of the time that objects and JSON.stringify need. */
function formatCompactPage(page: SandboxTickPage, price: (p: number) => string): string {
  const { t, p, kinds } = page;
  let text = `{"symbol":${JSON.stringify(page.symbol)},"ticks":[`;
  for (let i = 0; i < t.length; i++) {
    const comma = i === 0 ? '' : ',';
    const kind = kinds?.[i] ?? 'tick';
    if (kind === 'tick') text += `${comma}{"t":${t[i]},"p":${price(p[i]!)}}`;
    else text += comma + JSON.stringify(kind === 'invalid' ? invalidElement : { t: t[i], p: unusablePrice });
  }
  text += `],"count":${page.count}`;
  if (page.from !== null) text += `,"from":${page.from}`;
  if (page.to !== null) text += `,"to":${page.to}`;
  if (page.generatedAt !== null) text += `,"generated_at":${page.generatedAt}`;
  if (page.gaps !== undefined) text += `,"gaps":${JSON.stringify(page.gaps)}`;
  return `${text}}`;
}

/**
 * Shapes of order book responses. The documentation does not specify the format, and venues differ.
 * - `objects`: bids and asks of `{price, quantity}`, best first · `arrays`: of `[price, quantity]` · `text`: numbers as
 *   text
 * - `short`: buys and sells of `{p, q}`, under `book` · `shuffled`: levels in any order, under `data`
 * - `list`: two snapshots, the older one empty · `map`: from price to quantity, under `orderbook`, the time in ISO-8601
 * - `outcomes`: bids of YES and of NO, no asks · `dollars`: the same in dollars and in cents, under `orderbook`
 * - `no-time`: neither the book nor the response has a time
 * - `cents`: bids of both outcomes in cents only, without anything that states the unit
 */
export const bookShapes = [
  ...(['objects', 'arrays', 'text', 'short', 'shuffled', 'list', 'map', 'outcomes', 'dollars', 'no-time'] as const),
  'cents',
] as const;

type BookShape = (typeof bookShapes)[number];

interface BookContent {
  readonly symbol: string;
  readonly nowMs: number;
  readonly book: ReturnType<typeof createOrderBook>;
}

/** Age of the older snapshot of a list, ms. */
export const olderSnapshotAgeMs = minuteMs;

/** The response body in the given shape. */
export function formatBook(shape: BookShape, { symbol, nowMs, book }: BookContent): string {
  return JSON.stringify(buildBookBody(shape, { symbol, nowMs, book }));
}

function buildBookBody(shape: BookShape, { symbol, nowMs, book: { bids, asks } }: BookContent): object {
  const envelope = { symbol, generated_at: nowMs };
  const noBids = asks.map(({ price, quantity }) => ({ price: computeComplement(price), quantity }));
  const cents = (levels: readonly BookLevel[]) => levels.map(({ price, quantity }) => [toCents(price), quantity]);
  switch (shape) {
    case 'objects':
      return { ...envelope, t: nowMs, bids, asks };
    case 'arrays':
      return { ...envelope, timestamp: nowMs, bids: toPairs(bids), asks: toPairs(asks) };
    case 'text':
      return { ...envelope, timestamp: String(nowMs), bids: toTextLevels(bids), asks: toTextLevels(asks) };
    case 'short':
      return { ...envelope, book: { time: nowMs, buys: toShortLevels(bids), sells: toShortLevels(asks) } };
    case 'shuffled':
      return {
        ...envelope,
        data: { t: nowMs, bids: shuffleLevels(bids, nowMs), asks: shuffleLevels(asks, nowMs + 1) },
      };
    case 'list': {
      const older = { symbol, t: nowMs - olderSnapshotAgeMs, bids: [], asks: [] };
      return [{ symbol, t: nowMs, bids, asks }, older];
    }
    case 'map':
      return {
        ...envelope,
        orderbook: { t: new Date(nowMs).toISOString(), bids: toPriceMap(bids), asks: toPriceMap(asks) },
      };
    case 'outcomes':
      return { ...envelope, t: nowMs, yes: toPairs(bids), no: toPairs(noBids) };
    case 'dollars': {
      const dollars = {
        yes_dollars: toTextLevels(bids).map(toTextPair),
        no_dollars: toTextLevels(noBids).map(toTextPair),
      };
      return { ...envelope, orderbook: { t: nowMs, yes: cents(bids), no: cents(noBids), ...dollars } };
    }
    case 'no-time':
      return { symbol, bids, asks };
    case 'cents':
      return { ...envelope, t: nowMs, yes: cents(bids), no: cents(noBids) };
  }
}

/** 1 minus the price, exact to thousandths. */
const computeComplement = (price: number): number => (1000 - Math.round(price * 1000)) / 1000;
const toCents = (price: number): number => Math.round(price * 1000) / 10;

const toPairs = (levels: readonly BookLevel[]) => levels.map(({ price, quantity }) => [price, quantity]);
const toShortLevels = (levels: readonly BookLevel[]) =>
  levels.map(({ price, quantity }) => ({ p: price, q: quantity }));
const toTextLevels = (levels: readonly BookLevel[]) =>
  levels.map(({ price, quantity }) => ({ price: price.toFixed(4), size: quantity.toFixed(2) }));
const toTextPair = ({ price, size }: { price: string; size: string }) => [price, size];
const toPriceMap = (levels: readonly BookLevel[]) =>
  Object.fromEntries(levels.map(({ price, quantity }) => [price.toFixed(3), quantity]));

function shuffleLevels(levels: readonly BookLevel[], seed: number): BookLevel[] {
  const random = createRandom(seed);
  return levels
    .map((level) => ({ level, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ level }) => level);
}

interface BookLevel {
  readonly price: number;
  readonly quantity: number;
}

const levelsPerSide = 5;

/** An order book around a price, best level first, in steps of 0.001 inside (0, 1). Empty if the price is 0 or 1. */
export function createOrderBook(price: number | undefined, key: number, nowMs: number) {
  const middle = price === undefined || price <= 0 || price >= 1 ? undefined : Math.round(price * 1000);
  const side = (direction: 1 | -1): BookLevel[] =>
    Array.from({ length: levelsPerSide }, (_, i) => ({ thousandths: (middle ?? 0) + direction * (i + 1), i }))
      .filter(({ thousandths }) => middle !== undefined && thousandths > 0 && thousandths < 1000)
      .map(({ thousandths, i }) => ({
        price: thousandths / 1000,
        quantity: 1 + (hashNumber(key + direction * (i + 1), Math.floor(nowMs / minuteMs)) % 5_000),
      }));
  return { bids: side(-1), asks: side(1) };
}
