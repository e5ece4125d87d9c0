import { compareUtf8 } from '../../core/compare-utf8.ts';
import { intersectTwo, isEmpty, type Window } from '../../core/window.ts';
import type { Query } from '../../query/query.ts';
import type { BacktestSpec } from '../../research/backtest-request.ts';
import type { Settlement } from '../../research/symbol-series.ts';
import { InvalidBacktestError } from './invalid-backtest.ts';

/** A symbol as the symbols dataset knows it. Times are epoch milliseconds. */
export interface UniverseMember {
  readonly symbol: string;
  /** As it is last known. */
  readonly canonicalId: string | null;
  readonly source: string | null;
  /** Published ticks, and the first and the last of them; null where there are none. */
  readonly ticks: number;
  readonly firstTick: number | null;
  readonly lastTick: number | null;
  /** Its life, as far as the dataset tells: while it may have had ticks. */
  readonly lifetimeFrom: number;
  readonly lifetimeTo: number;
  readonly settlement: Settlement | null;
}

export interface Universe {
  /** What is asked for, by symbol. */
  readonly members: readonly UniverseMember[];
  /** All others that have ticks. */
  readonly others: readonly UniverseMember[];
}

const universeColumns = [
  'symbol',
  'canonical_id',
  'category',
  'source',
  'is_active',
  'outcome',
  'ticks::DOUBLE',
  ...['opens_at', 'resolved_at', 'first_seen', 'first_tick', 'last_tick'].map((name) => `epoch_ms(${name})::DOUBLE`),
].join(', ');

/**
 * The symbols that a backtest is asked for, out of a query over the symbols dataset; those without a tick are left out.
 * @throws UnfitBacktest where one is named that is not known, or none is left
 */
export async function readUniverse(
  query: Query,
  { symbols, filter }: Pick<BacktestSpec, 'symbols' | 'filter'>,
  signal: AbortSignal,
): Promise<Universe> {
  const named = symbols === null ? null : new Set(symbols);
  const missing = new Set(named);
  const members: UniverseMember[] = [];
  const rest: UniverseMember[] = [];
  const isIn = (names: readonly string[], value: unknown): boolean =>
    names.length === 0 || names.includes(value as string);
  for await (const chunk of query.readChunks([`SELECT ${universeColumns} FROM symbols`], signal)) {
    for (const row of chunk[0]!.keys()) {
      const [
        symbol,
        canonicalId,
        category,
        source,
        isActive,
        outcome,
        ticks,
        opensAt,
        resolvedAt,
        firstSeen,
        firstTick,
        lastTick,
      ] = chunk.map((column) => column[row]) as UniverseRow;
      missing.delete(symbol);
      if (ticks === 0) continue;
      // Without the moment of its resolution, it is settled with its last tick.
      const settlement = outcome === null ? null : { at: resolvedAt ?? lastTick! + 1, outcome };
      const member: UniverseMember = {
        symbol,
        canonicalId,
        source,
        ticks,
        firstTick,
        lastTick,
        lifetimeFrom: opensAt ?? Math.min(firstTick ?? firstSeen, firstSeen),
        lifetimeTo: settlement?.at ?? (isActive === true ? Number.POSITIVE_INFINITY : lastTick! + 1),
        settlement,
      };
      const isMember =
        (named === null || named.has(symbol)) && isIn(filter.categories, category) && isIn(filter.sources, source);
      (isMember ? members : rest).push(member);
    }
  }
  if (missing.size > 0) {
    const [first, ...others] = missing;
    const more = others.length === 0 ? '' : ` and ${others.length} more`;
    throw new InvalidBacktestError([
      { name: 'symbols', reason: `names ${first}${more}, which the archive does not know` },
    ]);
  }
  if (members.length === 0) {
    const none = named === null || isFiltered(filter) ? 'filter' : 'symbols';
    throw new InvalidBacktestError([{ name: none, reason: 'leaves no symbol that has ticks' }]);
  }
  members.sort((a, b) => compareUtf8(a.symbol, b.symbol));
  rest.sort((a, b) => compareUtf8(a.symbol, b.symbol));
  return { members, others: rest };
}

const isFiltered = ({ categories, sources }: BacktestSpec['filter']): boolean => categories.length + sources.length > 0;

type UniverseRow = [
  ...[symbol: string, canonicalId: string | null, category: string | null, source: string | null],
  ...[
    isActive: boolean | null,
    outcome: number | null,
    ticks: number,
    opensAt: number | null,
    resolvedAt: number | null,
  ],
  ...[firstSeen: number, firstTick: number | null, lastTick: number | null],
];

/**
 * From the first tick to behind the last one and every settlement, where nothing else is asked. What is asked is cut to what
 * can be known: from the first sign of life of any symbol up to the moment of the publish. Null where nothing is left.
 */
export function computeSpan(
  members: readonly UniverseMember[],
  { from, to }: Pick<BacktestSpec, 'from' | 'to'>,
  publishedAt: number,
): Window | null {
  const known = members.filter(({ firstTick }) => firstTick !== null);
  const least = known.reduce((low, { firstTick }) => Math.min(low, firstTick!), Number.POSITIVE_INFINITY);
  const most = known.reduce(
    // A resolution that is still to come is none to wait for.
    (high, { lastTick, settlement }) =>
      Math.max(high, lastTick! + 1, settlement === null || settlement.at >= publishedAt ? 0 : settlement.at + 1),
    Number.NEGATIVE_INFINITY,
  );
  const born = known.reduce((low, { lifetimeFrom }) => Math.min(low, lifetimeFrom), least);
  const asked = { from: from ?? least, to: to ?? most };
  if (!(Number.isFinite(asked.from) && Number.isFinite(asked.to)) || isEmpty(asked)) return null;
  const within = intersectTwo(asked, { from: born, to: Math.max(most, publishedAt) });
  return isEmpty(within) ? asked : within;
}
