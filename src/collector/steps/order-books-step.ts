import { allCovered, isLive } from '../../archive/completeness/symbol-lifetime.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { findOpenWindow } from '../../archive/format/selection.ts';
import { readSymbol } from '../../archive/journal/symbol-store.ts';
import { UpstreamError } from '../../base/errors.ts';
import { getFutureSkewMs, getLingerRules } from '../../context/open-configured.ts';
import { type BookCollectOutcome, collectBooks } from '../order-books/collect-books.ts';
import { bookRecords, openJournalWriter } from '../paging/journal-writer.ts';
import { createJobFailure, type RunFailure } from '../run/judge-run.ts';
import type { Run } from '../run/run.ts';
import { formatSymbolList } from './owed-windows-step.ts';
import { listPolledSymbols } from './polled-symbols.ts';
import { publishJournal } from './publish-step.ts';

/**
 * Polls the order books that the settings name, none by default. If the API key may read ticks but not order books,
 * that is a failure of the run, which publishes its ticks nevertheless.
 */
export async function pollConfiguredBooks(run: Run): Promise<void> {
  const { allLive } = run.context.settings.orderbooks;
  const symbols = listConfiguredBooks(run);
  const hadResponse = run.hasUpstreamResponded;
  try {
    await pollBooks(run, symbols, allLive ? listLiveSymbols(run) : []);
  } catch (error) {
    if (!(error instanceof UpstreamError) || error.failure !== 'credential' || !hadResponse) throw error;
    run.failures.push(createJobFailure('order book', `order books: ${error.reason}`));
  }
}

/** Whether `pollRequestedBooks` needs the market lists to find the live symbols. */
export const needsMarketLists = ({ context: { settings } }: Run, chosen: readonly string[]): boolean =>
  chosen.length === 0 &&
  settings.symbols.length === 0 &&
  (settings.orderbooks.allLive || settings.orderbooks.symbols.length === 0);

/** Polls the order books of the given symbols, or else those of the settings, or else those of all live symbols. */
export async function pollRequestedBooks(run: Run, chosen: readonly string[]): Promise<void> {
  const { allLive } = run.context.settings.orderbooks;
  const symbols = listConfiguredBooks(run);
  if (chosen.length > 0) return pollBooks(run, chosen, []);
  return pollBooks(run, symbols, allLive || symbols.length === 0 ? listLiveSymbols(run) : []);
}

/** The symbols whose order books the settings name, without those that a user forgot. */
export const listConfiguredBooks = ({ archive, context: { settings } }: Pick<Run, 'archive' | 'context'>): string[] =>
  settings.orderbooks.symbols.filter((symbol) => {
    const facts = readSymbol(archive.state.db, symbol);
    return facts === undefined || findOpenWindow(facts)?.kind !== 'forgotten';
  });

/** The polled symbols whose order books may change: not those that have ended and are polled until that is proven. */
export function listLiveSymbols(
  run: Pick<Run, 'context' | 'archive' | 'source'>,
  foresee?: (facts: SymbolFacts) => SymbolFacts,
): string[] {
  const { context } = run;
  const nowMs = context.clock.nowMs();
  return listPolledSymbols(run, [], nowMs, foresee)
    .map(({ facts }) => facts)
    .filter(
      (facts) =>
        context.settings.symbols.length > 0 ||
        isLive({ ...facts, suspendedAt: null }, allCovered, nowMs, getLingerRules(context)),
    )
    .map(({ symbol }) => symbol);
}

/** Polls order books into the journal. A listed symbol may lack an order book; for a named symbol that is a failure. */
async function pollBooks(run: Run, named: readonly string[], listed: readonly string[]): Promise<void> {
  const symbols = [...new Set([...named, ...listed])];
  run.bookCounts.planned += symbols.length;
  if (symbols.length === 0) return;
  const { context, archive } = run;
  const { settings, signal, clock } = context;
  const upstream = await run.upstream();
  using display = await context.startDisplay('order books', symbols.length, 'symbols', () => upstream.counters());
  const sink = openJournalWriter(bookRecords, archive.state, clock, settings.publish.journalTicksMax, () =>
    publishJournal(run),
  );
  try {
    const collected = await collectBooks(
      {
        upstream,
        clock,
        runId: run.id,
        signal,
        ...sink,
        futureSkewMs: getFutureSkewMs(context),
        concurrency: settings.upstream.concurrency,
        onResponse() {
          run.hasUpstreamResponded = true;
        },
        onSymbol: (done) => display.update({ done }),
      },
      symbols,
    );
    recordCollectedBooks(run, collected, symbols, new Set(named));
  } catch (error) {
    // Keep the accepted responses. The original error takes precedence over an error here.
    await sink.drain().catch(() => {});
    throw error;
  }
}

/** Adds the results of a poll to the run. Throws the error that stopped the poll if the run cannot continue. */
function recordCollectedBooks(
  run: Run,
  collected: BookCollectOutcome,
  symbols: readonly string[],
  named: ReadonlySet<string>,
): void {
  const { context, bookCounts } = run;
  const { done, quarantineReasons, stopError } = collected;
  bookCounts.done += done.length;
  bookCounts.snapshots += collected.snapshots;
  bookCounts.empty += collected.empty;
  bookCounts.quarantined += quarantineReasons.length;
  if (quarantineReasons.length > 0)
    run.warnings.push(
      `${quarantineReasons.length} order books were quarantined in .oddslake/quarantine: ${quarantineReasons[0]}.`,
    );
  context.signal.throwIfAborted();
  const missing = done.length === 0 ? [] : collected.missing.filter(({ symbol }) => !named.has(symbol));
  bookCounts.missing += missing.length;
  bookCounts.failed += symbols.length - done.length - missing.length;
  if (stopError !== null && (stopError.failure === 'credential' || !run.hasUpstreamResponded)) throw stopError;
  if (missing.length > 0) {
    const names = missing.map(({ symbol }) => symbol);
    run.warnings.push(`The service has no order book for ${formatSymbolList(names)}: ${missing[0]!.reason}.`);
  }
  for (const line of toFailureLines(collected, symbols, named, context.clock.nowMs())) run.failures.push(line);
  if (stopError !== null)
    context.log.warn(
      { reason: stopError.reason },
      'the upstream does not respond or keeps failing; received order books are kept',
    );
}

/** Failures of a poll; a single one if all symbols failed for the same reason. */
function toFailureLines(
  { done, failures, missing, stopError, refusedReason }: BookCollectOutcome,
  symbols: readonly string[],
  named: ReadonlySet<string>,
  nowMs: number,
): RunFailure[] {
  const noBookReason = named.size === 0 && missing.length === symbols.length ? missing[0]!.reason : null;
  const why = stopError?.reason ?? refusedReason ?? noBookReason;
  if (done.length === 0 && why !== null)
    return [createJobFailure('order book', `order books of ${formatSymbolList(symbols)}: ${why}`)];
  const requested = new Set([...done, ...[...failures, ...missing].map(({ symbol }) => symbol)]);
  const notRequested = symbols.filter((symbol) => !requested.has(symbol));
  const failed = [
    ...failures,
    ...missing.filter(({ symbol }) => named.has(symbol) || done.length === 0),
    ...notRequested.map((symbol) => ({ symbol, at: nowMs, reason: why ?? 'not requested' })),
  ];
  return failed.map(({ symbol, at, reason }) => ({
    symbol,
    from: at,
    to: at + 1,
    kind: 'order book',
    reason: `order book: ${reason}`,
  }));
}
