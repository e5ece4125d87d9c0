import type { MarketFacts } from './market.ts';
import { isSymbolName } from './symbol-name.ts';
import { timeEnd, timeMin } from './time.ts';

/** Where a market record's symbols and facts are looked for: `a/b` goes into objects, `*` over every member. */
export interface RecordPaths {
  readonly symbolPaths: readonly string[];
  readonly fieldPaths: {
    readonly question: readonly string[];
    readonly source: readonly string[];
    readonly opensAt: readonly string[];
    readonly closesAt: readonly string[];
    readonly resolvedAt: readonly string[];
    readonly outcome: readonly string[];
  };
}

export type MarketRecord = Readonly<Record<string, unknown>>;

interface PathMatch {
  readonly value: unknown;
  /** The member that each `*` stood for. */
  readonly stars: readonly string[];
  readonly path: string;
}

/** One market under each of its symbols; a reason where the record cannot be kept. `views` are those that named it. */
export function parseMarket(
  record: unknown,
  views: readonly string[],
  paths: RecordPaths,
): MarketFacts[] | { reason: string } {
  if (typeof record !== 'object' || record === null || Array.isArray(record))
    return { reason: 'market is not an object' };
  const market = record as MarketRecord;
  const canonicalId = market.canonical_id;
  if (typeof canonicalId !== 'string' || canonicalId === '') return { reason: 'canonical_id is not a string' };
  const symbols = findSymbols(market, paths.symbolPaths);
  if (![canonicalId, ...symbols.keys()].every(isSymbolName))
    return { reason: 'canonical_id or symbol is not well-formed Unicode, or has a NUL or byte order mark' };
  if (symbols.size === 0) symbols.set(canonicalId, { value: canonicalId, stars: [], path: 'canonical_id' });
  return [...symbols].map(([symbol, found]) => toMarketFacts(market, canonicalId, symbol, found, views, paths));
}

/** Every string that the paths yield, each once, with where it was found first. */
export function findSymbols(market: MarketRecord, paths: readonly string[]): Map<string, PathMatch> {
  const out = new Map<string, PathMatch>();
  for (const path of paths) {
    for (const found of findAtPath(market, path)) {
      if (typeof found.value === 'string' && found.value !== '' && !out.has(found.value)) out.set(found.value, found);
    }
  }
  return out;
}

function findAtPath(market: MarketRecord, path: string): PathMatch[] {
  let level: PathMatch[] = [{ value: market, stars: [], path }];
  for (const name of path.split('/')) {
    level = level.flatMap(({ value, stars }) => {
      if (typeof value !== 'object' || value === null) return [];
      if (name === '*')
        return Object.entries(value).map(([key, inner]) => ({ value: inner, stars: [...stars, key], path }));
      return Object.hasOwn(value, name) ? [{ value: (value as MarketRecord)[name], stars, path }] : [];
    });
  }
  return level;
}

function toMarketFacts(
  market: MarketRecord,
  canonicalId: string,
  symbol: string,
  at: PathMatch,
  views: readonly string[],
  { fieldPaths, symbolPaths }: RecordPaths,
): MarketFacts {
  // Fields that became columns; what could not be read stays in `extra`.
  const used = new Set(['canonical_id']);
  const pick = <T>(paths: readonly string[], read: (value: unknown) => T | null): T | null =>
    readFirstMatch(market, at, paths, read, (path) => used.add(path));
  const facts = {
    canonicalId,
    symbol,
    source: pick(fieldPaths.source, parseText),
    views,
    category: pick(['category'], parseText),
    confidence: pick(['confidence'], parseFinite),
    isActive: pick(['is_active'], (value) => (typeof value === 'boolean' ? value : null)),
    question: pick(fieldPaths.question, parseText),
    closesAt: pick(fieldPaths.closesAt, parseInstantMs),
    resolvedAt: pick(fieldPaths.resolvedAt, parseInstantMs),
    outcome: pick(fieldPaths.outcome, parseOutcome),
  };
  for (const path of symbolPaths) if (!path.includes('/') && market[path] === symbol) used.add(path);
  const rest = Object.entries(market).filter(([name]) => !used.has(name));
  const extra = rest.length === 0 ? null : JSON.stringify(Object.fromEntries(rest));
  // Markets have no column for their opening: it stays among the extra fields too.
  return { ...facts, opensAt: pick(fieldPaths.opensAt, parseInstantMs), extra };
}

/** The first value that can be read at the paths, for the symbol that was found at `at`. */
function readFirstMatch<T>(
  market: MarketRecord,
  at: PathMatch | undefined,
  paths: readonly string[],
  read: (value: unknown) => T | null,
  onUsed: (path: string) => void,
): T | null {
  const star = at?.stars[0];
  for (const path of paths) {
    for (const found of findAtPath(market, path)) {
      // A member of a list speaks for the symbol of that member only.
      if (found.stars.length > 0 && star !== undefined && found.stars[0] !== star) continue;
      const value = read(found.value);
      if (value === null) continue;
      onUsed(path);
      return value;
    }
  }
  return null;
}

/** One fact of a record as `readMarket` reads it by these paths, for the symbol that was found at `at`. */
export const readFact = (
  fact: keyof typeof factParsers,
  market: MarketRecord,
  at: PathMatch | undefined,
  paths: readonly string[],
): string | number | null => readFirstMatch<string | number>(market, at, paths, factParsers[fact], () => {});

const parseText = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

const parseFinite = (value: unknown): number | null => (Number.isFinite(value) ? (value as number) : null);

/** Epoch milliseconds, or an ISO-8601 instant with a zone; anything else is not guessed at. */
function parseInstantMs(value: unknown): number | null {
  const zoned = typeof value === 'string' && /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:?\d\d)$/.test(value);
  const ms = zoned ? Date.parse(value) : value;
  return typeof ms === 'number' && Number.isInteger(ms) && timeMin <= ms && ms < timeEnd ? ms : null;
}

/** A settlement between 0 and 1; yes and no are 1 and 0. */
function parseOutcome(value: unknown): number | null {
  if (typeof value === 'number') return value >= 0 && value <= 1 ? value : null;
  if (value === true || (typeof value === 'string' && /^yes$/i.test(value))) return 1;
  if (value === false || (typeof value === 'string' && /^no$/i.test(value))) return 0;
  return null;
}

const factParsers = {
  source: parseText,
  question: parseText,
  closesAt: parseInstantMs,
  resolvedAt: parseInstantMs,
  outcome: parseOutcome,
} as const;
