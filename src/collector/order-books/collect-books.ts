import { countLevels } from '../../archive/format/order-book.ts';
import type { BookRecord } from '../../archive/journal/journal-books.ts';
import { UpstreamError } from '../../base/errors.ts';
import { forEachConcurrent } from '../../base/for-each-concurrent.ts';
import { formatCount } from '../../base/format-quantity.ts';
import type { Clock } from '../../base/ports.ts';
import type { OrderbookResponse, Upstream } from '../../client/upstream.ts';
import { createCircuitBreaker } from '../paging/circuit-breaker.ts';
import { resolveObservedAt } from '../paging/observation.ts';
import { parseOrderBooks } from './parse-order-book.ts';

export interface BookCollectContext {
  readonly upstream: Pick<Upstream, 'orderbook'>;
  readonly clock: Clock;
  readonly runId: string;
  readonly concurrency: number;
  /** Maximum lead of the service's clock over ours, in ms. */
  readonly futureSkewMs: number;
  readonly signal: AbortSignal;
  append(record: BookRecord): Promise<void>;
  /** Makes all appended records durable. */
  drain(): Promise<void>;
  onResponse(): void;
  onSymbol(done: number): void;
}

/** An order book that could not be fetched. `at` is the time of the request, epoch ms. */
interface BookFailure {
  readonly symbol: string;
  readonly at: number;
  readonly reason: string;
}

export interface BookCollectOutcome {
  readonly done: readonly string[];
  readonly failures: readonly BookFailure[];
  /** Symbols for which the service states that it has no order book. */
  readonly missing: readonly BookFailure[];
  /** Snapshots received, and how many of them were empty. */
  readonly snapshots: number;
  readonly empty: number;
  /** The reason for each quarantined response. */
  readonly quarantineReasons: readonly string[];
  /** Why the collection stopped early: the credential was refused, or the upstream was unreachable. */
  readonly stopError: UpstreamError | null;
  /** Why the collection stopped early: the service refused each of the first symbols, or failed for too long. */
  readonly refusedReason: string | null;
}

/** Number of failed symbols, with no success, after which a refusal stops the collection. */
const refusedSymbolsMax = 20;

/** HTTP status codes that indicate an unknown resource. */
const missingStatuses: readonly (number | undefined)[] = [404, 410];

/**
 * Polls the order book of each symbol once, concurrently. A symbol that fails does not stop the others. If the signal
 * aborts, returns what is done so far; the caller throws.
 */
export async function collectBooks(
  context: BookCollectContext,
  symbols: readonly string[],
): Promise<BookCollectOutcome> {
  const breaker = createCircuitBreaker(context.clock);
  const done: string[] = [];
  const failures: BookFailure[] = [];
  const missing: BookFailure[] = [];
  const quarantineReasons: string[] = [];
  let [snapshots, empty] = [0, 0];
  let stopError: UpstreamError | null = null;
  let refusedReason: string | null = null;

  const addResponse = async (symbol: string, sentAt: number, response: OrderbookResponse): Promise<void> => {
    const futureMs = context.clock.nowMs() + context.futureSkewMs;
    const record = { runId: context.runId, ...toBookRecord(symbol, response, { sentAt, futureMs }) };
    await context.append(record);
    done.push(symbol);
    snapshots += record.snapshots.length;
    empty += record.snapshots.filter((snapshot) => countLevels(snapshot) === 0).length;
    quarantineReasons.push(...record.rejected.map(({ reason }) => reason));
    context.onResponse();
  };
  const requestBook = async (symbol: string, isAlone: boolean): Promise<void> => {
    const responsesBefore = breaker.countResponses();
    const sentAt = context.clock.nowMs();
    try {
      const response = await breaker.trackRequest(() =>
        context.upstream.orderbook({ symbol, askedAt: sentAt }, context.signal),
      );
      await addResponse(symbol, sentAt, response);
    } catch (error) {
      if (context.signal.aborted && error === context.signal.reason) return;
      if (!(error instanceof UpstreamError)) throw error;
      const isSilent = error.failure === 'unreachable' && breaker.countResponses() === responsesBefore;
      if (error.failure === 'credential' || (isAlone && isSilent)) stopError ??= error;
      const isMissing = missingStatuses.includes(error.status);
      (isMissing ? missing : failures).push({ symbol, at: sentAt, reason: error.reason });
      const areAllRefused = done.length === 0 && missing.length + failures.length >= refusedSymbolsMax;
      if ((areAllRefused && error.failure === 'refused') || breaker.isOpen()) refusedReason = error.reason;
    }
  };
  const canContinue = (): boolean => stopError === null && refusedReason === null && !context.signal.aborted;
  let tried = 0;
  await forEachConcurrent(context.concurrency, moveSampleToFront(symbols, refusedSymbolsMax), async (symbol) => {
    await breaker.attempt(canContinue, (isAlone) => requestBook(symbol, isAlone));
    context.onSymbol(++tried);
  });
  await context.drain();
  // There may have been no second symbol to try.
  if (breaker.countResponses() === 0) stopError ??= breaker.getUnreachableError();
  return {
    done,
    failures,
    missing,
    snapshots,
    empty,
    quarantineReasons,
    stopError,
    refusedReason,
  };
}

/**
 * Moves `count` symbols, evenly spaced in the list, to its front. Neighbours in the list may all belong to one venue.
 */
export function moveSampleToFront(symbols: readonly string[], count: number): string[] {
  if (symbols.length <= count) return [...symbols];
  const first = new Set(Array.from({ length: count }, (_, i) => Math.floor((i * symbols.length) / count)));
  return [...[...first].map((i) => symbols[i]!), ...symbols.filter((_, i) => !first.has(i))];
}

/** Converts a response to a record. If any part of it cannot be parsed, the full response is quarantined as received. */
export function toBookRecord(
  symbol: string,
  response: OrderbookResponse,
  { sentAt, futureMs }: { readonly sentAt: number; readonly futureMs: number },
): Omit<BookRecord, 'runId'> {
  const observedAt = resolveObservedAt(response.generatedAt, sentAt, futureMs);
  const named = response.requestedSymbol ?? symbol;
  const { snapshots, flaws } = parseOrderBooks(response.body, { symbol: named, observedAt, futureMs });
  const moreText = flaws.length > 1 ? `, and ${flaws.length - 1} more` : '';
  const keptText =
    snapshots.length > 0 && flaws.length > 0 ? `; ${formatCount(snapshots.length, 'snapshot')} kept` : '';
  const rejected =
    flaws.length === 0 ? [] : [{ reason: `order book: ${flaws[0]}${moreText}${keptText}`, raw: response.text }];
  const understood = snapshots.length > 0 || flaws.length === 0;
  return { symbol, observedAt, snapshots, rejected, understood };
}
