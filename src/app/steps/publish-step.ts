import type { ImportBuffer } from '../../archive/publish/import-buffer.ts';
import { publish } from '../../archive/publish/publish.ts';
import type { JournalQuarantine } from '../../archive/publish/quarantine.ts';
import { inlineWorker, type MergeWorkers } from '../../archive/publish/worker-pool.ts';
import { hashFiles } from '../../archive/verify/hash-share.ts';
import { DamageError } from '../../core/errors.ts';
import { recordLateness } from '../../core/rechecks.ts';
import { floorToDay } from '../../core/window.ts';
import { toCompletenessRules } from '../../settings/judged-by.ts';
import { updateRechecks } from '../../state/rechecks.ts';
import type { Run } from '../run.ts';
import { type JobWorkers, openJobWorkers } from '../worker-pool.ts';
import { noteConfirmedLosses } from './track-lost-windows.ts';

/** Ticks that are worth the start of threads. */
const threadedTicksMin = 1_000_000;

/**
 * Publishes what is journaled, and what an import has read. Damaged parts are refused: exit code 6, and what was for them
 * stays journaled; as does all of it where another process holds the lock for too long.
 */
export async function publishJournal(
  run: Run,
  from: { intake?: ImportBuffer; threads?: JobWorkers | undefined } = {},
): Promise<void> {
  const { context, archive } = run;
  const display = await context.startDisplay('publish', 1, 'parts');
  let own: JobWorkers | undefined;
  const workers = async (ticks: number): Promise<MergeWorkers> => {
    if (from.threads === undefined && context.threads > 1 && ticks >= threadedTicksMin)
      own = await openJobWorkers(context.threads);
    return (from.threads ?? own)?.parts ?? inlineWorker;
  };
  try {
    const published = await publish(archive, {
      runId: run.id,
      clock: context.clock,
      waitMs: context.waitMs,
      signal: context.signal,
      ...toCompletenessRules(context.settings),
      candles: context.settings.archive.candles,
      quarantineBytesMax: context.settings.quarantine.bytesMax,
      intake: from.intake,
      workers,
      late: run.nightCounters.lateRules,
      onProgress: (done, total) => display.update({ done, total }),
    });
    for (const file of published.files) run.files.set(file.path, file);
    noteConfirmedLosses(run, published.lacking);
    const { db } = archive.state;
    const nowMs = context.clock.nowMs();
    // A service that leaves ticks out brings them late wherever it is asked again: that is no lateness.
    if (published.latenessMs > 0)
      updateRechecks(db, (known) =>
        known.caughtAt !== null ? known : recordLateness(known, floorToDay(nowMs), published.latenessMs, nowMs),
      );
    if (published.quarantined !== null) run.warnings.push(formatQuarantinedRows(published.quarantined));
    if (published.refused.length > 0) {
      throw new DamageError(
        `${published.refused.join(' ')} Nothing was merged into it; what was fetched for it stays journaled. Run oddslake verify.`,
      );
    }
    if (published.files.length > 0) {
      const { generation } = published.manifest;
      context.log.info({ generation, files: published.files.length }, 'published');
    }
  } finally {
    await own?.close();
    display.stop();
  }
}

function formatQuarantinedRows({ rows, windows, path }: JournalQuarantine): string {
  const kept = path === null ? 'they are gone' : `they are in ${path}`;
  return `The journal was damaged: ${rows} of its rows differ from their checksums (${kept}), and ${windows} windows are asked for again by the next run. Check the disk.`;
}

/** Re-reads what this run published. */
export async function verifyPublishedFiles(run: Run): Promise<void> {
  const changed = [...run.files.values()];
  if (changed.length === 0) return;
  const { clock, signal } = run.context;
  const findings = await hashFiles(run.archive, changed, { runId: run.id, clock, signal });
  if (findings.length > 0) {
    throw new DamageError(
      `${findings.map((f) => `${f.path} (${f.kind})`).join(', ')} right after it was published: check the disk.`,
    );
  }
}
