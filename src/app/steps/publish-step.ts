import type { Intake } from '../../archive/publish/import-buffer.ts';
import { publish } from '../../archive/publish/publish.ts';
import type { QuarantinedRows } from '../../archive/publish/quarantine.ts';
import { ownThread, type PartWorkers } from '../../archive/publish/worker-pool.ts';
import { hashFiles } from '../../archive/verify/hash-share.ts';
import { DamageError } from '../../core/errors.ts';
import { noteLateness } from '../../core/rechecks.ts';
import { dayFloor } from '../../core/window.ts';
import { judgedBy } from '../../settings/judged-by.ts';
import { updateRechecks } from '../../state/rechecks.ts';
import type { Run } from '../run.ts';
import { openThreads, type Threads } from '../worker-pool.ts';
import { noteAnswered } from './track-lost-windows.ts';

/** Ticks that are worth the start of threads. */
const threadedTicks = 1_000_000;

/**
 * Publishes what is journaled, and what an import has read. Damaged parts are refused: exit code 6, and what was for them
 * stays journaled; as does all of it where another process holds the lock for too long.
 */
export async function publishStep(
  run: Run,
  from: { intake?: Intake; threads?: Threads | undefined } = {},
): Promise<void> {
  const { context, archive } = run;
  const display = await context.startDisplay('publish', 1, 'parts');
  let own: Threads | undefined;
  const workers = async (ticks: number): Promise<PartWorkers> => {
    if (from.threads === undefined && context.threads > 1 && ticks >= threadedTicks)
      own = await openThreads(context.threads);
    return (from.threads ?? own)?.parts ?? ownThread;
  };
  try {
    const published = await publish(archive, {
      runId: run.id,
      clock: context.clock,
      waitMs: context.waitMs,
      signal: context.signal,
      ...judgedBy(context.settings),
      candles: context.settings.archive.candles,
      quarantineBytesMax: context.settings.quarantine.bytesMax,
      intake: from.intake,
      workers,
      late: run.night.late,
      onProgress: (done, total) => display.update({ done, total }),
    });
    for (const file of published.files) run.files.set(file.path, file);
    noteAnswered(run, published.lacking);
    const { db } = archive.state;
    const nowMs = context.clock.nowMs();
    // A service that leaves ticks out brings them late wherever it is asked again: that is no lateness.
    if (published.latenessMs > 0)
      updateRechecks(db, (known) =>
        known.caughtAt !== null ? known : noteLateness(known, dayFloor(nowMs), published.latenessMs, nowMs),
      );
    if (published.quarantined !== null) run.warnings.push(quarantinedText(published.quarantined));
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

function quarantinedText({ rows, windows, path }: QuarantinedRows): string {
  const kept = path === null ? 'they are gone' : `they are in ${path}`;
  return `The journal was damaged: ${rows} of its rows differ from their checksums (${kept}), and ${windows} windows are asked for again by the next run. Check the disk.`;
}

/** Re-reads what this run published. */
export async function verifyStep(run: Run): Promise<void> {
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
