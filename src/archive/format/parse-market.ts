import { hash } from 'node:crypto';
import { isSymbolName } from '../../base/symbol-name.ts';
import { timeEnd, timeMin } from '../../base/time.ts';
import type { MarketFacts } from './market.ts';
import type { MarketDetails, OutcomeSource } from './market-details.ts';

/** Paths of the symbols and fields in a market record. `a/b` descends into objects; `*` matches every member. */
export interface RecordPaths {
  readonly symbolPaths: readonly string[];
  readonly fieldPaths: Readonly<Record<PathField, readonly string[]>>;
}

type PathField =
  | Exclude<keyof MarketDetails, 'rulesSha256'>
  | Extract<keyof MarketFacts, 'question' | 'source' | 'opensAt' | 'closesAt' | 'resolvedAt' | 'outcome'>;

type MarketRecord = Readonly<Record<string, unknown>>;

interface PathMatch {
  readonly value: unknown;
  /** The member that each `*` matched. */
  readonly stars: readonly string[];
  readonly path: string;
}

/**
 * Parses a record into one market for each of its symbols. Returns the reason if the record is rejected. `views` are
 * the market lists that contain it.
 */
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
  return [...symbols].map(([symbol, match]) => toMarketFacts(market, canonicalId, symbol, match, views, paths));
}

/** Finds every string at the paths, each once, with its first match. */
function findSymbols(market: MarketRecord, paths: readonly string[]): Map<string, PathMatch> {
  const out = new Map<string, PathMatch>();
  for (const path of paths) {
    for (const match of findAtPath(market, path)) {
      if (typeof match.value === 'string' && match.value !== '' && !out.has(match.value)) out.set(match.value, match);
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
  // Fields that became columns. A field that could not be parsed stays in `extra`.
  const used = new Set(['canonical_id']);
  const pick: PickField = (paths, read) => readFirstMatch(market, at, paths, read, (path) => used.add(path));
  const facts = {
    canonicalId,
    symbol,
    source: pick(fieldPaths.source, parseText),
    views,
    category: pick(['category'], parseText),
    confidence: pick(['confidence'], parseFinite),
    isActive: pick(['is_active'], parseBoolean),
    question: pick(fieldPaths.question, parseText),
    closesAt: pick(fieldPaths.closesAt, parseInstantMs),
    resolvedAt: pick(fieldPaths.resolvedAt, parseInstantMs),
    outcome: pick(fieldPaths.outcome, parseOutcome),
  };
  const details = parseDetails(fieldPaths, facts.outcome, pick);
  // The hash can be computed again, so `extra` does not repeat it.
  if (details.rulesSha256 !== null && market.rules_sha256 === details.rulesSha256) used.add('rules_sha256');
  for (const path of symbolPaths) if (!path.includes('/') && market[path] === symbol) used.add(path);
  const extraFields = Object.entries(market).filter(([name]) => !used.has(name));
  const extra = extraFields.length === 0 ? null : JSON.stringify(Object.fromEntries(extraFields));
  // The markets dataset has no column for the opening, so it also stays in `extra`.
  return { ...facts, ...details, opensAt: pick(fieldPaths.opensAt, parseInstantMs), extra };
}

/** The source of an outcome of which the record says nothing else. */
const defaultOutcomeSource = 'reported';

/** Picks the first valid value at the paths. */
type PickField = <T>(paths: readonly string[], read: (value: unknown) => T | null) => T | null;

function parseDetails(fieldPaths: RecordPaths['fieldPaths'], outcome: number | null, pick: PickField): MarketDetails {
  const rules = pick(fieldPaths.rules, parseText);
  return {
    outcomeSource:
      outcome === null ? null : (pick(fieldPaths.outcomeSource, parseOutcomeSource) ?? defaultOutcomeSource),
    event: pick(fieldPaths.event, parseText),
    exclusive: pick(fieldPaths.exclusive, parseBoolean),
    strikeLow: pick(fieldPaths.strikeLow, parseFinite),
    strikeHigh: pick(fieldPaths.strikeHigh, parseFinite),
    expectedEnd: pick(fieldPaths.expectedEnd, parseInstantMs),
    rules,
    rulesSha256: rules === null ? null : hash('sha256', rules),
    feeSchedule: pick(fieldPaths.feeSchedule, parseText),
    tickSize: pick(fieldPaths.tickSize, parseTickSize),
  };
}

/** Reads the first valid value at the paths for the symbol matched at `at`. */
function readFirstMatch<T>(
  market: MarketRecord,
  at: PathMatch | undefined,
  paths: readonly string[],
  read: (value: unknown) => T | null,
  onUsed: (path: string) => void,
): T | null {
  const star = at?.stars[0];
  for (const path of paths) {
    for (const match of findAtPath(market, path)) {
      // A list member applies only to the symbol of the same member.
      if (match.stars.length > 0 && star !== undefined && match.stars[0] !== star) continue;
      const value = read(match.value);
      if (value === null) continue;
      onUsed(path);
      return value;
    }
  }
  return null;
}

/** Reads one fact of a record as `parseMarket` does, for the symbol matched at `at`. */
const readFact = (
  fact: keyof typeof factParsers,
  market: MarketRecord,
  at: PathMatch | undefined,
  paths: readonly string[],
): string | number | boolean | null =>
  readFirstMatch<string | number | boolean>(market, at, paths, factParsers[fact], () => {});

const parseText = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

const parseBoolean = (value: unknown): boolean | null => (typeof value === 'boolean' ? value : null);

const parseOutcomeSource = (value: unknown): OutcomeSource | null =>
  value === 'reported' || value === 'derived' ? value : null;

/** Prices are fractions of 1, so a tick size of 1 or more has another unit, such as cents. */
const parseTickSize = (value: unknown): number | null =>
  typeof value === 'number' && value > 0 && value < 1 ? value : null;

const parseFinite = (value: unknown): number | null => (Number.isFinite(value) ? (value as number) : null);

/** Parses epoch milliseconds or an ISO 8601 instant with a zone. Returns null for any other value. */
function parseInstantMs(value: unknown): number | null {
  const isZoned = typeof value === 'string' && /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:?\d\d)$/.test(value);
  const ms = isZoned ? Date.parse(value) : value;
  return typeof ms === 'number' && Number.isInteger(ms) && timeMin <= ms && ms < timeEnd ? ms : null;
}

/** Parses a settlement between 0 and 1. Yes and no become 1 and 0. */
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
  outcomeSource: parseOutcomeSource,
  event: parseText,
  exclusive: parseBoolean,
  strikeLow: parseFinite,
  strikeHigh: parseFinite,
  expectedEnd: parseInstantMs,
  rules: parseText,
  feeSchedule: parseText,
  tickSize: parseTickSize,
} as const;

/**
 * A record that was rebuilt from its rows, with the values by which it can be filtered. It may differ from the received
 * record.
 */
interface RebuiltMarketRecord {
  readonly record: MarketRecord;
  /** Union over its rows. */
  readonly views: ReadonlySet<string>;
  readonly sources: ReadonlySet<string>;
}

/**
 * Rebuilds the records from the rows of one market (one canonical_id) in one poll. This is the inverse of
 * `parseMarket`, which parses the same rows again with `paths`. The rows of several symbols of one record give one
 * record. The value of a column is restored under the first plain name that `paths` has for it. If the record was
 * parsed with other paths, a symbol that `paths` do not find becomes a separate record.
 */
export function rebuildMarketRecords(rows: readonly MarketFacts[], paths: RecordPaths): RebuiltMarketRecord[] {
  interface Group {
    record: MarketRecord;
    weight: number;
    readonly symbols: Set<string | null>;
    readonly views: Set<string>;
    readonly sources: Set<string>;
  }
  const groups = new Map<string, Group>();
  const siblings = parseExtras(rows);
  rows.forEach((row, i) => {
    const record = rebuildMarketRecord(row, siblings[i]!, siblings, paths);
    const key = JSON.stringify(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
    const weight = row.extra?.length ?? 0;
    const group = groups.get(key) ?? { record, weight, symbols: new Set(), views: new Set(), sources: new Set() };
    groups.set(key, group);
    // The row with the longest extra fields preserves the field order best.
    if (weight > group.weight) Object.assign(group, { record, weight });
    group.symbols.add(row.symbol);
    for (const view of row.views) group.views.add(view);
    if (row.source !== null) group.sources.add(row.source);
  });
  const rebuilt = [...groups.values()];
  // If records share a symbol, the later record is used. A record that contains symbols of other rows is therefore
  // placed first.
  const isForeign = ({ record, symbols }: Group): boolean =>
    [...findSymbols(record, paths.symbolPaths).keys()].some((symbol) => !symbols.has(symbol));
  const sorted = rebuilt.toSorted((a, b) => Number(isForeign(b)) - Number(isForeign(a)));
  return sorted.map(({ record, views, sources }) => ({ record, views, sources }));
}

/** @param siblings the extra fields of every row of the market */
function rebuildMarketRecord(
  row: MarketFacts,
  extra: MarketRecord,
  siblings: readonly MarketRecord[],
  paths: RecordPaths,
): MarketRecord {
  const { symbol } = row;
  const added: Record<string, unknown> = { canonical_id: row.canonicalId };
  const add = (names: readonly string[], value: unknown): boolean => {
    const name = names.find((path) => !path.includes('/') && !Object.hasOwn(extra, path));
    if (name !== undefined) added[name] = value;
    return name !== undefined;
  };
  const record = (): MarketRecord => ({ ...added, ...extra });
  // In the rows of the record's other symbols, this symbol's own name is an extra field.
  for (const name of paths.symbolPaths)
    if (symbol !== null && !name.includes('/') && siblings.some((other) => other[name] === symbol)) add([name], symbol);
  const namedSymbols = findSymbols(record(), paths.symbolPaths);
  const isFound = symbol === null || (namedSymbols.size === 0 ? symbol === row.canonicalId : namedSymbols.has(symbol));
  if (!isFound) add(paths.symbolPaths, symbol);
  for (const fact of ['confidence', 'category', 'isActive'] as const)
    if (row[fact] !== null) add([columnNames[fact]], row[fact]);
  const named = isFound ? namedSymbols : findSymbols(record(), paths.symbolPaths);
  const at = symbol === null ? undefined : named.get(symbol);
  for (const fact of factNames) {
    const names = paths.fieldPaths[fact];
    if (row[fact] === null || (fact === 'outcomeSource' && row[fact] === defaultOutcomeSource)) continue;
    // A plain name that is still among the extra fields was not the column's source, even with the same value.
    const nestedPaths = names.filter((path) => path.includes('/'));
    if (readFact(fact, record(), at, nestedPaths) === row[fact]) continue;
    // If no name is left, the value came from another symbol's member, as happens for a symbol that also has a plain
    // name.
    if (!add(names, row[fact]) && symbol !== null) add(paths.symbolPaths, symbol);
  }
  return record();
}

const columnNames = { confidence: 'confidence', category: 'category', isActive: 'is_active' } as const;

const factNames = Object.keys(factParsers) as (keyof typeof factParsers)[];

/** Parses the extra fields of each row. Rows of one record mostly share them, so each distinct text is parsed once. */
function parseExtras(rows: readonly MarketFacts[]): MarketRecord[] {
  const parsed = new Map<string | null, MarketRecord>();
  return rows.map(({ extra }) => {
    const fields = parsed.get(extra) ?? parseExtra(extra);
    parsed.set(extra, fields);
    return fields;
  });
}

/** Extra fields from an import may not be an object. */
function parseExtra(extra: string | null): MarketRecord {
  try {
    const parsed: unknown = JSON.parse(extra ?? '{}');
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? (parsed as MarketRecord) : {};
  } catch {
    return {};
  }
}
