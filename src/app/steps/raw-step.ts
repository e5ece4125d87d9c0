import type { Archive } from '../../archive/open-archive.ts';
import { pruneRawFiles } from '../../archive/raw/raw-retention.ts';
import type { RawWriter } from '../../archive/raw/raw-writer.ts';
import { requireUpstream } from '../../settings/settings.ts';
import type { Context } from '../context.ts';

/** What of a run matters here. */
interface RawCaptureRun {
  readonly context: Pick<Context, 'settings' | 'clock'>;
  readonly archive: Archive;
  readonly id: string;
  readonly warnings: string[];
}

/** How long an answer may wait for others, in ms: what a kill can cost of them. */
const gatherMs = 50;

/** Opens what keeps the answers of a run as they come; null where none are kept. */
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

/** Writes what is left of the answers, and removes old ones. What goes wrong with it is a warning, whatever it is. */
export async function closeRawCapture(
  { context, archive, warnings }: RawCaptureRun,
  keeper: RawWriter | null,
): Promise<void> {
  const lost = await keeper?.close();
  if (typeof lost === 'string') warnings.push(lost);
  try {
    pruneRawFiles(archive, context.settings.raw, context.clock.nowMs());
  } catch (error) {
    warnings.push(`Old answers under .oddslake/raw could not be removed: ${(error as Error).message}`);
  }
}
