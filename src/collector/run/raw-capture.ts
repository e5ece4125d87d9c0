import type { Archive } from '../../archive/archive.ts';
import { pruneRawFiles } from '../../archive/raw/raw-file.ts';
import type { RawWriter } from '../../archive/raw/raw-writer.ts';
import type { Context } from '../../context/context.ts';
import { requireUpstream } from '../../settings/settings.ts';
import type { RunWarning } from './judge-run.ts';

/** The parts of a run that the raw capture needs. */
interface RawCaptureRun {
  readonly context: Pick<Context, 'settings' | 'clock'>;
  readonly archive: Archive;
  readonly id: string;
  readonly warnings: RunWarning[];
}

/**
 * Interval at which received responses are written, in ms. If the process is killed, the responses of the last interval
 * are lost.
 */
const gatherMs = 50;

/** Opens the writer of raw responses; null if `raw.keep_days` is 0. */
export async function openRawCapture({
  context: { settings, clock },
  archive,
  id: runId,
}: RawCaptureRun): Promise<RawWriter | null> {
  if (settings.raw.keepDays === 0) return null;
  const { openRawWriter } = await import('../../archive/raw/raw-writer.ts');
  const gather = (signal: AbortSignal): Promise<void> => clock.sleep(gatherMs, signal);
  return openRawWriter(archive, { runId, secret: requireUpstream(settings).apiKey, gather, ...settings.raw });
}

/** Writes the remaining responses and removes old ones. Errors become warnings of the run. */
export async function closeRawCapture(
  { context, archive, warnings }: RawCaptureRun,
  writer: RawWriter | null,
): Promise<void> {
  const lost = await writer?.close();
  if (typeof lost === 'string') warnings.push(lost);
  try {
    pruneRawFiles(archive, context.settings.raw, context.clock.nowMs());
  } catch (error) {
    warnings.push(`Could not remove old raw responses in .oddslake/raw: ${(error as Error).message}`);
  }
}
