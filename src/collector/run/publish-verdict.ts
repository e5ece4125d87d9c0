import { readRecordedDamage } from '../../archive/journal/published-files.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { publish } from '../../archive/publish/publish.ts';
import { DamageError, exitCodes, OddslakeError } from '../../base/errors.ts';
import type { Context } from '../../context/context.ts';
import { toCompletenessRules } from '../../context/open-configured.ts';

/** Publishes the journal and the current verdict. */
export async function publishVerdict(context: Context, archive: Archive, runId: string): Promise<void> {
  await publish(archive, {
    runId,
    clock: context.clock,
    waitMs: context.waitMs,
    signal: context.signal,
    ...toCompletenessRules(context.settings),
    judges: true,
    candles: context.settings.archive.candles,
    quarantineBytesMax: context.settings.quarantine.bytesMax,
  });
}

/**
 * Publishes the verdict again if the run has found damage since its last publish. Otherwise the manifest would report a day
 * with a damaged file as complete. If another run is publishing or the manifest is damaged, the next run does this.
 */
export async function publishDamageVerdict(context: Context, archive: Archive, runId: string): Promise<void> {
  const files = readRecordedDamage(archive.state.db).length;
  if (files === 0) return;
  try {
    const { generation, verdict } = archive.readManifest();
    if (generation > 0 && verdict?.damaged.files !== files) await publishVerdict(context, archive, runId);
  } catch (error) {
    const isLeft =
      error instanceof DamageError || (error instanceof OddslakeError && error.exitCode === exitCodes.busy);
    if (!isLeft) throw error;
    context.log.warn({ err: error }, 'the manifest does not contain the new damage yet');
  }
}
