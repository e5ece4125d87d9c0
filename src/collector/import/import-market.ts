import { type MarketFacts, marketColumns } from '../../archive/format/market.ts';
import { detailColumns } from '../../archive/format/market-details.ts';
import { parseMarket, type RecordPaths } from '../../archive/format/parse-market.ts';
import { type QualifyName, qualifyMarket } from '../../archive/format/qualify-market.ts';
import { timeMin } from '../../base/time.ts';
import type { TimeZone } from '../../base/time-zone.ts';
import { type ParsedTime, parseTimeText, resolveLocalTime } from './import-rows.ts';

/** A market from a row, and when it was first and last seen with these facts. Epoch ms. */
interface ImportedMarket {
  readonly facts: readonly MarketFacts[];
  readonly firstSeen: number;
  readonly lastSeen: number;
}

interface MarketRowRules {
  readonly paths: RecordPaths;
  /** Qualifies the names in the record, in an archive of several sources. Absent: they stay as they are. */
  readonly qualify?: QualifyName | undefined;
  readonly zone: TimeZone | null;
  /** Whether times finer than a millisecond are truncated. */
  readonly truncates: boolean;
  /** Columns whose numbers are local times. */
  readonly localColumns: ReadonlySet<string>;
  /** When the file was written, at most now. Epoch ms. */
  readonly writtenAt: number;
  /** Latest time accepted, epoch ms. */
  readonly futureMs: number;
}

type ImportMarketRow = Readonly<Record<string, unknown>>;

const publishedNames: readonly string[] = [...marketColumns, ...detailColumns].map(([, column]) => column);

/** Columns of a market row that are read by name. */
export const marketColumnNames: readonly string[] = [...publishedNames, 'opens_at', 'observed_at', 'generated_at'];

/**
 * Reads a row of a market list. Columns have the names of the published markets table, or those of the configured
 * paths. Rows published by one archive become identical rows in another. A row without canonical_id uses its symbol.
 */
export function readMarketRow(
  row: ImportMarketRow,
  rules: MarketRowRules,
): ImportedMarket | { readonly reason: string } {
  const zoned: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(row)) {
    if (value !== null) zoned[name] = toInstant(name, value, rules);
  }
  const seen = readSeenTimes(zoned, rules);
  if ('reason' in seen) return seen;
  const {
    extra,
    views,
    first_seen: _f,
    last_seen: _l,
    observed_at: _o,
    generated_at: _g,
    date: _d,
    ...columns
  } = zoned;
  const extraFields = parseExtra(extra);
  const record: Record<string, unknown> = { ...extraFields, ...columns };
  record.canonical_id ??= columns.symbol;
  // A published row describes only its own symbol, regardless of other symbols in the record.
  const isPublished = typeof columns.symbol === 'string' && row.first_seen !== undefined;
  const symbolPaths = isPublished ? ['symbol'] : rules.paths.symbolPaths;
  const named = rules.qualify === undefined ? record : qualifyMarket(record, rules.qualify, symbolPaths);
  const facts = parseMarket(named, parseViews(views), {
    symbolPaths,
    fieldPaths: addColumnPaths(rules.paths.fieldPaths),
  });
  if ('reason' in facts) return facts;
  const isOurs = extraFields !== null && Object.keys(columns).every((name) => publishedNames.includes(name));
  return { ...seen, facts: isOurs ? facts.map((one) => ({ ...one, extra: String(extra) })) : facts };
}

/** The first and the last time the market was seen. A row without them has one time for both. */
function readSeenTimes(row: ImportMarketRow, { zone, truncates, writtenAt, futureMs }: MarketRowRules) {
  const read = (name: string): ParsedTime | undefined => {
    const value = row[name];
    if (value === undefined) return undefined;
    const rules = { zone, unit: 'ms', truncates } as const;
    const t = typeof value === 'number' ? value : typeof value === 'string' ? parseTimeText(value, rules) : Number.NaN;
    if (typeof t !== 'number') return { reason: `${name} ${t.reason}` };
    if (!Number.isInteger(t) || t < timeMin || t > futureMs) return { reason: `${name} is not a time in the past` };
    return t;
  };
  const ends = [read('first_seen'), read('last_seen')].filter((time) => time !== undefined);
  const known: number[] = [];
  for (const time of ends.length > 0 ? ends : [read('observed_at') ?? read('generated_at') ?? writtenAt]) {
    if (typeof time !== 'number') return time;
    known.push(time);
  }
  return { firstSeen: Math.min(...known), lastSeen: Math.max(...known) };
}

/** Converts a local time with the zone. Without a zone, returns text without an offset, which is rejected later. */
function toInstant(name: string, value: unknown, { zone, localColumns }: MarketRowRules): unknown {
  if (!localColumns.has(name) || typeof value !== 'number') return value;
  const t = resolveLocalTime(value, zone);
  return typeof t === 'number' ? t : new Date(value).toISOString().slice(0, -1);
}

/** Accepts a list, or a list as JSON text. */
function parseViews(value: unknown): string[] {
  const list: unknown = typeof value === 'string' ? parseJsonOrNull(value) : value;
  return Array.isArray(list) ? [...new Set(list.filter((view) => typeof view === 'string'))].sort() : [];
}

function parseExtra(extra: unknown): Record<string, unknown> | null {
  const value = typeof extra === 'string' ? parseJsonOrNull(extra) : null;
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

function parseJsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The configured paths, followed by the published columns. */
const addColumnPaths = (paths: RecordPaths['fieldPaths']): RecordPaths['fieldPaths'] =>
  Object.fromEntries(
    Object.entries(paths).map(([field, own]) => [field, [...own, toColumnName(field)]]),
  ) as unknown as RecordPaths['fieldPaths'];

const toColumnName = (field: string): string => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Converts the text of CSV columns that may hold a number, a boolean or a time. */
export function parseTypedColumns(
  row: Readonly<Record<string, unknown>>,
  { fieldPaths }: RecordPaths,
): Record<string, unknown> {
  const { opensAt, closesAt, resolvedAt, outcome, exclusive, strikeLow, strikeHigh, expectedEnd, tickSize } =
    addColumnPaths(fieldPaths);
  const loosePaths = [opensAt, closesAt, resolvedAt, outcome, exclusive, strikeLow, strikeHigh, expectedEnd, tickSize];
  const loose = new Set(['is_active', 'confidence', ...loosePaths.flat()]);
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      loose.has(name) && typeof value === 'string' ? parseTypedText(value) : value,
    ]),
  );
}

function parseTypedText(text: string): unknown {
  if (/^(true|false)$/i.test(text)) return text.toLowerCase() === 'true';
  return /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? Number(text) : text;
}
