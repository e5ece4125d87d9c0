import type { MarketFacts } from './market.ts';
import { findSymbols, type MarketRecord, type RecordPaths, readFact } from './parse-market.ts';

/** A record as close to what was received as its rows allow, with what may be asked of it. */
export interface RebuiltMarketRecord {
  readonly record: MarketRecord;
  /** Of all of its rows. */
  readonly views: ReadonlySet<string>;
  readonly sources: ReadonlySet<string>;
}

/**
 * The records that rows of one market (one canonical_id) in one poll are from: the inverse of `readMarket`, which finds
 * the same rows again by `paths`. Several symbols of one record are one record. What a column took out of the record comes
 * back under the first plain name that the paths have for it; where the record was read by other paths, a symbol that
 * `paths` do not find comes back as a record of its own.
 */
export function rebuildMarketRecords(rows: readonly MarketFacts[], paths: RecordPaths): RebuiltMarketRecord[] {
  interface Group {
    record: MarketRecord;
    weight: number;
    readonly symbols: Set<string>;
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
    // The row whose extra fields are the most knows best in what order the record had them.
    if (weight > group.weight) Object.assign(group, { record, weight });
    group.symbols.add(row.symbol);
    for (const view of row.views) group.views.add(view);
    if (row.source !== null) group.sources.add(row.source);
  });
  const given = [...groups.values()];
  // Of records that bring a symbol twice the later one counts: the one that the row is from.
  const isForeign = ({ record, symbols }: Group): boolean =>
    [...findSymbols(record, paths.symbolPaths).keys()].some((symbol) => !symbols.has(symbol));
  const sorted = given.toSorted((a, b) => Number(isForeign(b)) - Number(isForeign(a)));
  return sorted.map(({ record, views, sources }) => ({ record, views, sources }));
}

/** @param siblings the extra fields of every row of the market */
function rebuildMarketRecord(
  row: MarketFacts,
  extra: MarketRecord,
  siblings: readonly MarketRecord[],
  paths: RecordPaths,
): MarketRecord {
  const added: Record<string, unknown> = { canonical_id: row.canonicalId };
  const add = (names: readonly string[], value: unknown): boolean => {
    const name = names.find((path) => !path.includes('/') && !Object.hasOwn(extra, path));
    if (name !== undefined) added[name] = value;
    return name !== undefined;
  };
  const record = (): MarketRecord => ({ ...added, ...extra });
  // Under the other symbols of its record a symbol's own name is an extra field.
  for (const name of paths.symbolPaths)
    if (!name.includes('/') && siblings.some((other) => other[name] === row.symbol)) add([name], row.symbol);
  const named = findSymbols(record(), paths.symbolPaths);
  const isFound = named.size === 0 ? row.symbol === row.canonicalId : named.has(row.symbol);
  if (!isFound) add(paths.symbolPaths, row.symbol);
  for (const fact of ['confidence', 'category', 'isActive'] as const)
    if (row[fact] !== null) add([columnNames[fact]], row[fact]);
  const at = (isFound ? named : findSymbols(record(), paths.symbolPaths)).get(row.symbol);
  for (const [fact, names] of listFactPaths(paths)) {
    if (row[fact] === null) continue;
    // A plain name that is still there was not what the column came from, be it of the same value.
    const nested = names.filter((path) => path.includes('/'));
    if (readFact(fact, record(), at, nested) === row[fact]) continue;
    // With no name left it came from the member of another symbol, as it does for one that has a plain name itself.
    if (!add(names, row[fact])) add(paths.symbolPaths, row.symbol);
  }
  return record();
}

const columnNames = { confidence: 'confidence', category: 'category', isActive: 'is_active' } as const;

const listFactPaths = ({ fieldPaths: { source, question, closesAt, resolvedAt, outcome } }: RecordPaths) =>
  [
    ['source', source],
    ['question', question],
    ['closesAt', closesAt],
    ['resolvedAt', resolvedAt],
    ['outcome', outcome],
  ] as const;

/** The extra fields of each row; rows of one record mostly have the same. */
function parseExtras(rows: readonly MarketFacts[]): MarketRecord[] {
  const parsed = new Map<string | null, MarketRecord>();
  return rows.map(({ extra }) => {
    const fields = parsed.get(extra) ?? parseExtra(extra);
    parsed.set(extra, fields);
    return fields;
  });
}

/** What an import brought as extra fields need not be an object. */
function parseExtra(extra: string | null): MarketRecord {
  try {
    const parsed: unknown = JSON.parse(extra ?? '{}');
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? (parsed as MarketRecord) : {};
  } catch {
    return {};
  }
}
