import { readCoverageWithoutLost, readOwedWindows, recordOwed } from '../../archive/journal/gap-records.ts';
import { readSymbol, recordServedFrom } from '../../archive/journal/symbol-store.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { formatIsoUtc, formatMinute } from '../../base/time.ts';
import { dayMs, hourMs } from '../../base/window.ts';
import type { FetchFailure, TickCollectOutcome } from '../paging/collect-ticks.ts';
import type { Run } from '../run/run.ts';

export interface CollectedFor {
  /** Whether somebody asked for these windows: what expired of them is a failure. */
  readonly isAsked: boolean;
  /** Whether nothing was collected of the symbols before. */
  readonly isFirstNight: boolean;
}

/**
 * Records the windows that the collection could not fetch, and where the history of the service starts. A lifetime
 * begins there, or when the symbol was first seen if that is earlier. If it was first seen before that start, or if somebody asked
 * for it, the window in between has expired.
 */
export function recordOwedWindows(
  run: Run,
  { done, failures, failed, shortHistories, horizon, horizonError }: TickCollectOutcome,
  { isAsked, isFirstNight }: CollectedFor,
): void {
  const { context, archive } = run;
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  const expired: FetchFailure[] = [];
  for (const { symbol, since: requestedFrom, from } of shortHistories) {
    const facts = readSymbol(db, symbol);
    if (facts === undefined) continue;
    recordServedFrom(db, symbol, Math.min(from, facts.firstSeen));
    // A window that was reported as failed is reported as expired too.
    const failedFrom = readOwedWindows(db, symbol).find(({ kind }) => kind === 'failed')?.from;
    const start = isAsked ? requestedFrom : Math.min(facts.firstSeen, failedFrom ?? facts.firstSeen);
    const since = Math.max(start, facts.opensAt ?? start);
    const reason = `expired: the service has no ticks before ${formatIsoUtc(from)}`;
    if (since < from) expired.push({ symbol, from: since, to: from, reason, isTooOld: true });
  }
  for (const failure of expired) run.failures.push({ ...failure, kind: 'expired' });
  if (horizonError !== null)
    run.warnings.push(
      `Where the history of the service begins is not known: ${horizonError}. The next run asks again.`,
    );
  if (horizon !== null && (isFirstNight || isAsked)) {
    const { oldest, latest } = horizon;
    const days = Math.round((latest - oldest) / dayMs);
    const kept = days < 2 ? formatCount(Math.round((latest - oldest) / hourMs), 'hour') : formatCount(days, 'day');
    run.warnings.push(
      `Nothing older than ${formatMinute(oldest)} UTC from any symbol: the service seems to keep ${kept}. What is before has expired.`,
    );
  } else if (horizon === null && shortHistories.length > expired.length) {
    const names = shortHistories
      .map(({ symbol }) => symbol)
      .filter((name) => !expired.some(({ symbol }) => symbol === name));
    run.warnings.push(
      `The service has no ticks for the start of the requested window of ${formatSymbolList(names)}: earlier ticks are unknown.`,
    );
  }
  const bySymbol = Map.groupBy([...failures, ...expired], ({ symbol }) => symbol);
  const owed = [...new Set([...done, ...failed, ...bySymbol.keys()])]
    .filter((symbol) =>
      bySymbol.has(symbol) ? readSymbol(db, symbol) !== undefined : readOwedWindows(db, symbol).length > 0,
    )
    .map((symbol) => ({
      symbol,
      covered: readCoverageWithoutLost(db, symbol),
      failures: (bySymbol.get(symbol) ?? []).map(({ from, to, reason, isTooOld }) => ({
        from,
        to,
        reason,
        kind: isTooOld === true ? ('expired' as const) : ('failed' as const),
      })),
    }));
  recordOwed(db, owed, nowMs);
}

/** `3 symbols (A, B, C)`, with at most `namedMax` names. */
export const formatSymbolList = (symbols: readonly string[], namedMax = 3): string =>
  `${formatCount(symbols.length, 'symbol')} (${symbols.slice(0, namedMax).join(', ')}${symbols.length > namedMax ? ', …' : ''})`;
