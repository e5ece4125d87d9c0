import { readLastJournaledTick } from '../../archive/journal/journal.ts';
import {
  isTickLogDue,
  logSymbols,
  readLoggedSymbol,
  readTickLogState,
  resetTickLog,
  trimTickLog,
} from '../../archive/journal/tick-log.ts';
import { hourMs } from '../../base/window.ts';
import type { ServiceContext } from '../http/service-context.ts';
import { openStateWriter, type StateWriter } from './state-writer.ts';

/** How often the logging of streamed symbols is renewed, as a share of the time for which rows are kept. */
const renewShare = 1 / 8;

export type TickLogKeeper = ReturnType<typeof openTickLogKeeper>;

/** Keeps the tick log for the streams of a service: which symbols are logged, and for how long rows are kept. */
export function openTickLogKeeper(context: ServiceContext) {
  const { archive, clock, log, settings } = context;
  const { db } = archive.state;
  const keepMs = settings.service.stream.keepHours * hourMs;
  let writer: StateWriter | undefined;
  let renewedAt = clock.nowMs();
  let maintaining: Promise<void> | undefined;

  /** Writes through a connection that is opened for the first stream. */
  const write = (work: (db: StateWriter['state']['db']) => void): Promise<void> => {
    writer ??= openStateWriter(context, archive);
    const { state } = writer;
    return writer.write(() => work(state.db));
  };

  /**
   * Makes sure that these symbols are logged from now on, for as long as their streams may resume.
   * @throws OddslakeError (busy) if another process writes for too long; DiskFullError
   */
  async function keepLogging(symbols: readonly string[]): Promise<void> {
    const nowMs = clock.nowMs();
    const due = symbols.filter((symbol) => (readLoggedSymbol(db, symbol)?.until ?? 0) < nowMs + keepMs);
    if (due.length === 0 && readTickLogState(db) !== null) return;
    const id = archive.createCommitId().slice(0, 12);
    // Twice as long, so that it is renewed rarely.
    await write((own) => logSymbols(own, due, nowMs + 2 * keepMs, id, (symbol) => readLastJournaledTick(own, symbol)));
  }

  async function renewAndTrim(symbols: Iterable<string>): Promise<void> {
    const nowMs = clock.nowMs();
    if (nowMs - renewedAt >= keepMs * renewShare) {
      await keepLogging([...symbols]);
      renewedAt = nowMs;
    }
    if (isTickLogDue(db, nowMs, keepMs)) await write((own) => trimTickLog(own, nowMs, keepMs));
  }

  return {
    keepLogging,
    /** Renews the logging of the streamed symbols and removes old rows, in the background. A failure is logged. */
    maintain(symbols: Iterable<string>): void {
      maintaining ??= renewAndTrim(symbols)
        .catch((error: unknown) => log.warn({ err: error }, 'the tick log could not be renewed; trying again'))
        .finally(() => {
          maintaining = undefined;
        });
    },
    /** Removes the log after damage, so that the next stream begins another one. A failure is logged. */
    reset: (): Promise<void> =>
      write(resetTickLog).catch((error: unknown) => log.error({ err: error }, 'the tick log could not be reset')),
    async close(): Promise<void> {
      await maintaining;
      writer?.close();
      writer = undefined;
    },
  };
}
