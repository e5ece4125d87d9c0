import { keepCollectedEnd } from '../../archive/journal/collected-ends.ts';
import { readSymbolCoverage } from '../../archive/journal/coverage-store.ts';
import { appendTicks, type TickRecord } from '../../archive/journal/journal.ts';
import { appendBooks } from '../../archive/journal/journal-books.ts';
import { openListChecks } from '../../archive/journal/list-checks.ts';
import { UpstreamError } from '../../base/errors.ts';
import { collectBooks } from '../../collector/order-books/collect-books.ts';
import { collectTicks } from '../../collector/paging/collect-ticks.ts';
import type { SymbolPlan } from '../../collector/paging/plan.ts';
import { pollMarkets } from '../../collector/paging/poll-markets.ts';
import type { ServerBehavior } from '../../collector/paging/server-behavior.ts';
import { Night, noSilences } from '../../collector/proof/shown.ts';
import { journalMarketsPoll } from '../../collector/steps/poll-steps.ts';
import type { Context } from '../../context/context.ts';
import { getFutureSkewMs } from '../../context/open-configured.ts';
import type { LiveSession } from './live-run.ts';

// What a live read requests from the upstream and journals. Each function returns the failure of the upstream, or null.

/** The windows to fetch of a symbol, and whether the archive knows it. */
export interface PlannedTicks {
  readonly plan: SymbolPlan;
  readonly known: boolean;
}

const unknownSymbol = { first: null, last: null, count: 0, observedAt: null, firstSeen: 0, opensAt: null, provenTo: 0 };

/**
 * Fetches and journals the windows of a plan.
 * @returns `unknown` if nobody has ticks of the symbol
 */
export async function fetchTicks(
  context: Context,
  { run, state, upstream, write }: LiveSession,
  behavior: ServerBehavior,
  { plan, known }: PlannedTicks,
  signal: AbortSignal,
): Promise<UpstreamError | null | 'unknown'> {
  const { symbol, windows } = plan;
  let failure: UpstreamError | null = null;
  // A symbol that nobody has ticks of must not enter the archive because someone asked for it.
  let held: TickRecord[] | null = known ? null : [];
  const append = async (record: TickRecord): Promise<void> => {
    if (held !== null && record.ticks.t.length === 0) return void held.push(record);
    const records = [...(held ?? []), record];
    held = null;
    await write(() => {
      keepCollectedEnd(state.db, symbol, windows[0]!.from);
      appendTicks(state, records);
    });
  };
  const note = <T>(request: Promise<T>): Promise<T> =>
    request.then(
      (answer) => {
        run.hasUpstreamResponded = true;
        return answer;
      },
      (error: unknown) => {
        if (error instanceof UpstreamError) failure = error;
        throw error;
      },
    );
  const collected = await collectTicks(
    {
      upstream: { ticks: (query, ownSignal) => note(upstream.ticks(query, ownSignal)) },
      mirror: context.settings.source.mirror
        ? { coverage: (query, ownSignal) => note(upstream.coverage(query, ownSignal)) }
        : undefined,
      clock: context.clock,
      runId: run.id,
      origin: 'poll',
      behavior,
      pieces: false,
      signal,
      append,
      drain: async () => {},
      pageLimit: context.settings.poll.pageLimit,
      futureSkewMs: getFutureSkewMs(context),
      concurrency: 1,
      getCoverage: (name) => readSymbolCoverage(state.db, name),
      getUnjudged: () => [],
      // A single symbol has no witnesses: its ends stay inferred until a night.
      night: new Night(),
      settleMs: Number.POSITIVE_INFINITY,
      knownSilences: noSilences,
      getSymbol: () => unknownSymbol,
      findTick: async () => null,
      onPage() {
        run.pages++;
      },
      onSymbol() {},
    },
    [plan],
  );
  signal.throwIfAborted();
  if (held !== null) return failure === null || collected.unknown.length > 0 ? 'unknown' : failure;
  return collected.failed.length > 0 ? failure : null;
}

/** Polls the market lists and journals them. */
export async function fetchMarkets(
  context: Context,
  { run, state, upstream, write }: LiveSession,
  signal: AbortSignal,
): Promise<null> {
  const { source } = context.settings;
  const poll = await pollMarkets({
    upstream,
    clock: context.clock,
    views: source.views,
    getCheck: openListChecks(state.db, run.source, context.clock.nowMs()),
    signal,
    paths: source,
    futureSkewMs: getFutureSkewMs(context),
  });
  run.hasUpstreamResponded = true;
  await write(() => journalMarketsPoll(state, run, poll));
  return null;
}

/** Fetches and journals the order book of a symbol. */
export async function fetchOrderBook(
  context: Context,
  { run, state, upstream, write }: LiveSession,
  symbol: string,
  signal: AbortSignal,
): Promise<UpstreamError | null> {
  let failure: UpstreamError | null = null;
  const collected = await collectBooks(
    {
      upstream: {
        orderbook: (query, ownSignal) =>
          upstream.orderbook(query, ownSignal).catch((error: unknown) => {
            if (error instanceof UpstreamError) failure = error;
            throw error;
          }),
      },
      clock: context.clock,
      runId: run.id,
      concurrency: 1,
      futureSkewMs: getFutureSkewMs(context),
      signal,
      append: (record) => write(() => appendBooks(state, [record])),
      drain: async () => {},
      onResponse() {
        run.hasUpstreamResponded = true;
      },
      onSymbol() {},
    },
    [symbol],
  );
  signal.throwIfAborted();
  return collected.done.length > 0 ? null : failure;
}
