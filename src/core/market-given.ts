import type { MarketFacts } from './market.ts';
import { type MarketRecord, type RecordPaths, readMarket, symbolsOf } from './market-record.ts';

/** A record as close to what was received as its rows allow, with what may be asked of it. */
export interface GivenRecord {
  readonly record: MarketRecord;
  /** Of all of its rows. */
  readonly views: ReadonlySet<string>;
  readonly sources: ReadonlySet<string>;
}

/**
 * The records that rows of one poll are from: the inverse of `readMarket`, which finds the same rows again by `paths`.
 * Several symbols of one record are one record. What a column took out of the record comes back under the first plain
 * name that the paths have for it; where the record was read by other paths, a symbol that `paths` do not find comes back
 * as a record of its own. Rows keep their order.
 */
export function giveRecords(rows: readonly MarketFacts[], paths: RecordPaths): GivenRecord[] {
  interface Group {
    record: MarketRecord;
    weight: number;
    readonly symbols: Set<string>;
    readonly views: Set<string>;
    readonly sources: Set<string>;
  }
  const groups = new Map<string, Group>();
  const extras = new Map<string, MarketRecord[]>();
  for (const row of rows) extras.set(row.canonicalId, [...(extras.get(row.canonicalId) ?? []), extraOf(row)]);
  for (const row of rows) {
    const record = recordOf(row, extras.get(row.canonicalId)!, paths);
    const key = JSON.stringify(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
    const weight = row.extra?.length ?? 0;
    const group = groups.get(key) ?? { record, weight, symbols: new Set(), views: new Set(), sources: new Set() };
    groups.set(key, group);
    // The row whose extra fields are the most knows best in what order the record had them.
    if (weight > group.weight) Object.assign(group, { record, weight });
    group.symbols.add(row.symbol);
    for (const view of row.views) group.views.add(view);
    if (row.source !== null) group.sources.add(row.source);
  }
  // Of records that bring a symbol twice the later one counts: the one that the row is from.
  const isForeign = ({ record, symbols }: Group): boolean =>
    [...symbolsOf(record, paths.symbolPaths).keys()].some((symbol) => !symbols.has(symbol));
  const [foreign, own] = [[] as Group[], [] as Group[]];
  for (const group of groups.values()) (isForeign(group) ? foreign : own).push(group);
  return [...foreign, ...own].map(({ record, views, sources }) => ({ record, views, sources }));
}

/** @param siblings the extra fields of every row of the same market */
function recordOf(row: MarketFacts, siblings: readonly MarketRecord[], paths: RecordPaths): MarketRecord {
  const extra = extraOf(row);
  const added: Record<string, unknown> = { canonical_id: row.canonicalId };
  const add = (names: readonly string[], value: unknown): void => {
    const name = names.find((path) => !path.includes('/') && !Object.hasOwn(extra, path));
    if (name !== undefined) added[name] = value;
  };
  const record = (): MarketRecord => ({ ...added, ...extra });
  // Under the other symbols of its record a symbol's own name is an extra field.
  for (const name of paths.symbolPaths)
    if (!name.includes('/') && siblings.some((other) => Object.hasOwn(other, name) && other[name] === row.symbol))
      add([name], row.symbol);
  const named = symbolsOf(record(), paths.symbolPaths);
  const isFound = named.size === 0 ? row.symbol === row.canonicalId : named.has(row.symbol);
  if (!isFound) add(paths.symbolPaths, row.symbol);
  // A plain name that is still there was not what the column came from, be it of the same value.
  const nested = factNames(paths).map(([fact, names]) => [fact, names.filter((path) => path.includes('/'))]);
  const fieldPaths = { ...paths.fieldPaths, ...(Object.fromEntries(nested) as Partial<RecordPaths['fieldPaths']>) };
  const read = readMarket(record(), [], { ...paths, fieldPaths });
  const found = 'reason' in read ? undefined : read.find(({ symbol }) => symbol === row.symbol);
  for (const fact of ['confidence', 'category', 'isActive'] as const)
    if (row[fact] !== null) add([columnNames[fact]], row[fact]);
  for (const [fact, names] of factNames(paths))
    if (row[fact] !== null && row[fact] !== found?.[fact]) add(names, row[fact]);
  return record();
}

const columnNames = { confidence: 'confidence', category: 'category', isActive: 'is_active' } as const;

const factNames = ({ fieldPaths: { source, question, closesAt, resolvedAt, outcome } }: RecordPaths) =>
  [
    ['source', source],
    ['question', question],
    ['closesAt', closesAt],
    ['resolvedAt', resolvedAt],
    ['outcome', outcome],
  ] as const;

/** What an import brought as extra fields need not be an object. */
function extraOf({ extra }: MarketFacts): MarketRecord {
  if (extra === null) return {};
  try {
    const parsed: unknown = JSON.parse(extra);
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? (parsed as MarketRecord) : {};
  } catch {
    return {};
  }
}
