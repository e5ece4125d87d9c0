import type { Clock } from '../core/clock.ts';
import { UpstreamError } from '../core/errors.ts';
import type { MarketFacts } from '../core/market.ts';
import type { Rejected } from '../core/tick.ts';
import type { MarketsQuery, Upstream } from '../upstream/upstream.ts';
import { type RecordPaths, readMarket } from './market-record.ts';

export interface MarketsContext {
  readonly upstream: Pick<Upstream, 'markets'>;
  readonly clock: Clock;
  readonly views: readonly string[];
  /** Markets asked for at first. */
  readonly limit: number;
  readonly paths: RecordPaths;
  readonly signal: AbortSignal;
}

export interface MarketsPoll {
  readonly markets: readonly MarketFacts[];
  readonly rejected: readonly Rejected[];
  readonly observedAt: number;
  /** Whether every view was had whole: only then does an absence mean that a market is gone. */
  readonly complete: boolean;
  /** What could not be had, one sentence each. */
  readonly shortfalls: readonly string[];
}

interface List {
  /** By identity, so that lists asked for in several ways count each market once. */
  readonly records: ReadonlyMap<string, unknown>;
  readonly observedAt: number;
  readonly shortfall: string | null;
}

/** Polls the lists of every view. Rejects with UpstreamError where none can be had, or one fails in passing. */
export async function pollMarkets(context: MarketsContext): Promise<MarketsPoll> {
  const byRecord = new Map<string, { record: unknown; views: string[] }>();
  const shortfalls: string[] = [];
  let observedAt = 0;
  let refusal: UpstreamError | undefined;
  let answered = 0;
  for (const view of context.views) {
    try {
      const list = await wholeList(context, view);
      answered++;
      observedAt = Math.max(observedAt, list.observedAt);
      if (list.shortfall !== null) shortfalls.push(list.shortfall);
      for (const [id, record] of list.records) {
        const known = byRecord.get(id);
        if (known === undefined) byRecord.set(id, { record, views: [view] });
        else {
          known.views.push(view);
          known.record = record;
        }
      }
    } catch (error) {
      // A view that this service does not have is no reason to go without the others.
      if (!(error instanceof UpstreamError) || error.failure !== 'refused') throw error;
      refusal = error;
      shortfalls.push(`The markets of view ${view} could not be had: ${error.reason}.`);
    }
  }
  if (answered === 0 && refusal !== undefined) throw refusal;
  const markets: MarketFacts[] = [];
  const rejected: Rejected[] = [];
  for (const { record, views } of byRecord.values()) {
    const read = readMarket(record, views.sort(), context.paths);
    if ('reason' in read) rejected.push({ reason: read.reason, raw: JSON.stringify(record) });
    else markets.push(...read);
  }
  return { markets, rejected, observedAt, complete: shortfalls.length === 0, shortfalls };
}

/** A view's list; where `total` says that it was cut off, asked again with a larger limit, then venue by venue. */
async function wholeList(context: MarketsContext, view: string): Promise<List> {
  const records = new Map<string, unknown>();
  let observedAt = 0;
  const ask = async (query: MarketsQuery): Promise<{ total: number; count: number }> => {
    const page = await context.upstream.markets(query, context.signal);
    observedAt = Math.max(observedAt, page.generatedAt ?? context.clock.nowMs());
    for (const record of page.markets) records.set(identityOf(record), record);
    return { total: page.total ?? page.markets.length, count: page.markets.length };
  };
  const first = await ask({ view, limit: context.limit });
  let { total } = first;
  let largest = first.count;
  if (largest < total) {
    const second = await ask({ view, limit: total });
    total = second.total;
    largest = Math.max(largest, second.count);
  }
  if (largest < total && records.size < total) {
    for (const source of sourcesOf(records.values(), context.paths)) await ask({ view, source, limit: total });
  }
  const cut = largest < total && records.size < total;
  const shortfall = cut ? `The list of ${view} markets was cut off: ${records.size} of ${total} could be had.` : null;
  return { records, observedAt, shortfall };
}

function identityOf(record: unknown): string {
  const id = (record as { canonical_id?: unknown } | null)?.canonical_id;
  const symbol = (record as { symbol?: unknown } | null)?.symbol;
  return typeof id === 'string' ? JSON.stringify([id, symbol ?? null]) : JSON.stringify(record);
}

/** Every venue that the records name. */
function sourcesOf(records: Iterable<unknown>, paths: RecordPaths): string[] {
  const sources = new Set<string>();
  for (const record of records) {
    const read = readMarket(record, [], paths);
    if ('reason' in read) continue;
    for (const { source } of read) if (source !== null) sources.add(source);
  }
  return [...sources].sort();
}
