import { countLevels } from '../../archive/format/order-book.ts';
import type { BookRecord } from '../../archive/journal/journal-books.ts';
import { UpstreamError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { OrderbookResponse, Upstream } from '../../client/upstream.ts';
import { createCircuitBreaker, forEachConcurrent } from '../paging/circuit-breaker.ts';
import { resolveObservedAt } from '../paging/observation.ts';
import { parseOrderBooks } from './parse-order-book.ts';

export interface BookCollectContext {
  readonly upstream: Pick<Upstream, 'orderbook'>;
  readonly clock: Clock;
  readonly runId: string;
  readonly concurrency: number;
  /** How far ahead of ours the service's clock may be; milliseconds. */
  readonly futureSkewMs: number;
  readonly signal: AbortSignal;
  append(record: BookRecord): Promise<void>;
  /** Makes durable what was appended. */
  drain(): Promise<void>;
  onResponse(): void;
  onSymbol(done: number): void;
}

/** A book that could not be had when it was asked for, at `at` in epoch ms. */
export interface BookFailure {
  readonly symbol: string;
  readonly at: number;
  readonly reason: string;
}

export interface BookCollectOutcome {
  readonly done: readonly string[];
  readonly failures: readonly BookFailure[];
  /** Symbols of which the service said that it has no order book, while it has others. */
  readonly missing: readonly BookFailure[];
  /** Snapshots had, and those of them that were empty. */
  readonly snapshots: number;
  readonly empty: number;
  /** Why each answer that was set aside was. */
  readonly quarantineReasons: readonly string[];
  /** Why nothing more was asked: the credential was refused, or the upstream could not be reached any more. */
  readonly stopError: UpstreamError | null;
  /** Why nothing more was asked: the service refused every one of the first symbols, or did nothing but fail for long. */
  readonly refusedReason: string | null;
}

/** Symbols refused, and none answered, after which no other is asked for. */
const refusedSymbolsMax = 20;

/** Statuses by which a service says that it has no such thing. */
const missingStatuses: readonly (number | undefined)[] = [404, 410];

/**
 * Polls the order book of each symbol once, several at a time; a symbol that fails does not stop the others. When the
 * signal comes it returns what was done until then: whoever calls it throws.
 */
export async function collectBooks(
  context: BookCollectContext,
  symbols: readonly string[],
): Promise<BookCollectOutcome> {
  const line = createCircuitBreaker(context.clock);
  const done: string[] = [];
  const failures: BookFailure[] = [];
  const missing: BookFailure[] = [];
  const setAside: string[] = [];
  let [snapshots, empty] = [0, 0];
  let stopped: UpstreamError | null = null;
  let refused: string | null = null;

  const take = async (symbol: string, sentAt: number, answer: OrderbookResponse): Promise<void> => {
    const futureMs = context.clock.nowMs() + context.futureSkewMs;
    const record = { runId: context.runId, ...toBookRecord(symbol, answer, { sentAt, futureMs }) };
    await context.append(record);
    done.push(symbol);
    snapshots += record.snapshots.length;
    empty += record.snapshots.filter((snapshot) => countLevels(snapshot) === 0).length;
    setAside.push(...record.rejected.map(({ reason }) => reason));
    context.onResponse();
  };
  const once = async (symbol: string, alone: boolean): Promise<void> => {
    const answersBefore = line.countResponses();
    const sentAt = context.clock.nowMs();
    try {
      const answer = await line.trackRequest(() =>
        context.upstream.orderbook({ symbol, askedAt: sentAt }, context.signal),
      );
      await take(symbol, sentAt, answer);
    } catch (error) {
      if (context.signal.aborted && error === context.signal.reason) return;
      if (!(error instanceof UpstreamError)) throw error;
      const silent = error.failure === 'unreachable' && line.countResponses() === answersBefore;
      if (error.failure === 'credential' || (alone && silent)) stopped ??= error;
      const isMissing = missingStatuses.includes(error.status);
      (isMissing ? missing : failures).push({ symbol, at: sentAt, reason: error.reason });
      const areAllRefused = done.length === 0 && missing.length + failures.length >= refusedSymbolsMax;
      if ((areAllRefused && error.failure === 'refused') || line.isOpen()) refused = error.reason;
    }
  };
  const goesOn = (): boolean => stopped === null && refused === null && !context.signal.aborted;
  let tried = 0;
  await forEachConcurrent(context.concurrency, moveSampleToFront(symbols, refusedSymbolsMax), async (symbol) => {
    await line.attempt(goesOn, (alone) => once(symbol, alone));
    context.onSymbol(++tried);
  });
  await context.drain();
  // There may have been no second symbol to try.
  if (line.countResponses() === 0) stopped ??= line.getUnreachableError();
  return {
    done,
    failures,
    missing,
    snapshots,
    empty,
    quarantineReasons: setAside,
    stopError: stopped,
    refusedReason: refused,
  };
}

/** The same symbols, the first `count` of them from all over the list: its neighbours may be of one venue. */
export function moveSampleToFront(symbols: readonly string[], count: number): string[] {
  if (symbols.length <= count) return [...symbols];
  const first = new Set(Array.from({ length: count }, (_, i) => Math.floor((i * symbols.length) / count)));
  return [...[...first].map((i) => symbols[i]!), ...symbols.filter((_, i) => !first.has(i))];
}

/** What an answer says, judged; it is set aside whole, as received, where a part of it is not understood. */
export function toBookRecord(
  symbol: string,
  answer: OrderbookResponse,
  { sentAt, futureMs }: { readonly sentAt: number; readonly futureMs: number },
): Omit<BookRecord, 'runId'> {
  const observedAt = resolveObservedAt(answer.generatedAt, sentAt, futureMs);
  const { snapshots, flaws } = parseOrderBooks(answer.body, { symbol, observedAt, futureMs });
  const more = flaws.length > 1 ? `, and ${flaws.length - 1} more` : '';
  const kept = snapshots.length > 0 && flaws.length > 0 ? `; ${snapshots.length} of its snapshots kept` : '';
  const rejected = flaws.length === 0 ? [] : [{ reason: `order book: ${flaws[0]}${more}${kept}`, raw: answer.text }];
  const understood = snapshots.length > 0 || flaws.length === 0;
  return { symbol, observedAt, snapshots, rejected, understood };
}
