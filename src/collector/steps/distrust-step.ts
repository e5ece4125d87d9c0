import type { CoveredWindow } from '../../archive/format/coverage.ts';
import { readResponses } from '../../archive/journal/coverage-store.ts';
import { appendTicks, type TickRecord } from '../../archive/journal/journal.ts';
import { readRecheckHistory, updateRecheckHistory } from '../../archive/journal/nightly-memory.ts';
import { readCollectedSymbols } from '../../archive/journal/symbol-subsets.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { dayMs, type Window } from '../../base/window.ts';
import type { Origin } from '../../contract/raw-page.ts';
import { createEmptyRecord } from '../paging/fetch-symbol.ts';
import type { JournalWriter } from '../paging/journal-writer.ts';
import type { Omission } from '../proof/shown.ts';
import { createDemotion, demoteAll } from '../rechecks/recheck.ts';
import type { Run } from '../run/run.ts';
import { noteRecordCoverage } from './polled-symbols.ts';

/** Claims are recent if they are about this long before an omission or later, or of responses since then. In ms. */
const recentMs = 8 * dayMs;

/** The coverage of a source, and how its claims are taken back. What other records say must be durable before. */
export function createCoverageAccess(run: Run) {
  const { state } = run.archive;
  function append(symbol: string, origin: Origin, changes: Partial<TickRecord>): void {
    const empty = createEmptyRecord({ runId: run.id, origin }, symbol, { from: 0, to: 0 }, run.context.clock.nowMs());
    const record = { ...empty, ...changes };
    noteRecordCoverage(run, record);
    appendTicks(state, [record]);
  }
  return {
    symbols: readCollectedSymbols(state.db, run.source),
    getCoverage: (symbol: string) => readResponses(state.db, symbol),
    withdraw: async (symbol: string, withdrawn: readonly Window[]) => append(symbol, 'backfill', { withdrawn }),
    demote: (symbol: string, windows: readonly CoveredWindow[]) =>
      append(symbol, windows[0]!.origin, createDemotion(windows)),
  };
}

/**
 * Withdraws what a source has proven, as a response left out a tick that an earlier one showed: recent claims, or all of them if it
 * was already found to leave out ticks. They are inferred until they are fetched again. Durable when it resolves.
 */
export async function distrustSource(run: Run, sink: JournalWriter, { symbol, t, at }: Omission): Promise<void> {
  await sink.drain();
  const { db } = run.archive.state;
  // Without rechecks, nothing would tell when it can be trusted again.
  const caughtAt = run.context.settings.poll.recheckShare > 0 ? at : null;
  db.transaction(() => {
    const isCaught = readRecheckHistory(db, run.source).caughtAt !== null;
    demoteAll(createCoverageAccess(run), Number.POSITIVE_INFINITY, isCaught ? undefined : at - recentMs);
    updateRecheckHistory(
      db,
      (memory) => ({ ...memory, caughtAt: memory.caughtAt ?? caughtAt, omittedAt: at, cleanWindows: 0 }),
      run.source,
    );
  });
  run.warnings.push(
    `A response for ${symbol} leaves out its tick of ${formatIsoUtc(t)}, which the service returned before: this run proves nothing, and earlier coverage counts as inferred until it is read again.`,
  );
}
