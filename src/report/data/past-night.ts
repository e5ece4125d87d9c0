/** What a nightly run found to have changed since the night before. */
export interface PastNight {
  /** Number of previous nights in the medians. */
  readonly nights: number;
  readonly ticks: Readonly<Record<'new' | 'late' | 'conflicts', ComparedCount>>;
  readonly markets: Readonly<Record<'new' | 'resolved' | 'delisted' | 'overdue', NamedSymbols>>;
}

interface ComparedCount {
  readonly count: number;
  /** Median of previous nights; null if there were none. */
  readonly median: number | null;
}

export interface NamedSymbols {
  readonly count: number;
  /** The first few. */
  readonly names: readonly string[];
}

const namesMax = 5;

type Fields = Readonly<Record<string, unknown>>;

const toFields = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value);
const toCount = (value: unknown): number => (isNumber(value) ? Math.max(0, value) : 0);

function toComparedCount(value: unknown): ComparedCount {
  const { count, median } = toFields(value);
  return { count: toCount(count), median: isNumber(median) ? median : null };
}

function toNamedSymbols(value: unknown): NamedSymbols {
  const { count, names } = toFields(value);
  const texts = Array.isArray(names) ? names.filter((name) => typeof name === 'string') : [];
  return { count: Math.max(texts.length, toCount(count)), names: texts.slice(0, namesMax) };
}

/** Parses the `night` of a summary; null if it has none. */
export function parsePastNight(value: unknown): PastNight | null {
  const fields = toFields(value);
  if (fields.ticks === undefined) return null;
  const [ticks, markets] = [toFields(fields.ticks), toFields(fields.markets)];
  return {
    nights: toCount(fields.nights),
    ticks: {
      new: toComparedCount(ticks.new),
      late: toComparedCount(ticks.late),
      conflicts: toComparedCount(ticks.conflicts),
    },
    markets: {
      new: toNamedSymbols(markets.new),
      resolved: toNamedSymbols(markets.resolved),
      delisted: toNamedSymbols(markets.delisted),
      overdue: toNamedSymbols(markets.overdue),
    },
  };
}
