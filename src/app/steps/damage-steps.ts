import { checkFileSizes, findFilesAt } from '../../archive/verify/check-sizes.ts';
import { hashDueShare, hashFiles, recordVerification } from '../../archive/verify/hash-share.ts';
import { type VerifyResult, verifyArchive } from '../../archive/verify/verify.ts';
import { dayMs } from '../../core/window.ts';
import { type FileDamage, recordDamage } from '../../state/damage.ts';
import type { Run } from '../run.ts';

/** How long a run may hash files that were published before it, in ms. */
const hashMsMax = 10 * 60_000;

/** Looks at presence and size of every published file; what is not as published is remembered, and the run goes on. */
export function checkPublishedSizes(run: Run): void {
  const found = checkFileSizes(run.archive);
  recordDamage(run.archive.state.db, found, run.id, run.context.clock.nowMs());
  warnDamage(run, found);
}

/** Hashes the files that could not be read as published, and the share of all that is due; see `archive.verify_days`. */
export async function hashDueFiles(run: Run): Promise<void> {
  const { archive, context, id: runId } = run;
  const { clock, signal } = context;
  const how = { runId, clock, signal };
  // A publish may have replaced one while it was read: what counts is what is there now.
  warnDamage(run, await hashFiles(archive, findFilesAt(archive, archive.refusedPaths), how));
  const everyMs = context.settings.archive.verifyDays * dayMs;
  warnDamage(run, await hashDueShare(archive, { ...how, intervalMs: everyMs, durationMsMax: hashMsMax }));
}

/** Looks at the whole archive, and remembers what was found in place of what was known before. */
export async function verifyAllFiles(
  run: Run,
  onProgress: (done: number, total: number) => void,
): Promise<VerifyResult> {
  const begunAt = run.context.clock.nowMs();
  const found = await verifyArchive(run.archive, null, onProgress, run.context.signal);
  recordVerification(run.archive, found, run.id, begunAt);
  return found;
}

function warnDamage({ context }: Run, found: readonly FileDamage[]): void {
  const [first] = found;
  if (first !== undefined)
    context.log.warn({ files: found.length, path: first.path, kind: first.kind }, 'published files are damaged');
}
