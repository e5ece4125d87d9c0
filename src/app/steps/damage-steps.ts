import { checkSizes, filesAt } from '../../archive/verify/check-sizes.ts';
import { hashFiles, hashShare, noteVerified } from '../../archive/verify/hash-share.ts';
import { type Verified, verify } from '../../archive/verify/verify.ts';
import { dayMs } from '../../core/window.ts';
import { type Damage, noteDamage } from '../../state/damage.ts';
import type { Run } from '../run.ts';

/** How long a run may hash files that were published before it, in ms. */
const shareMsMax = 10 * 60_000;

/** Looks at presence and size of every published file; what is not as published is remembered, and the run goes on. */
export function sizesStep(run: Run): void {
  const found = checkSizes(run.archive);
  noteDamage(run.archive.state.db, found, run.id, run.context.clock.nowMs());
  warn(run, found);
}

/** Hashes the files that could not be read as published, and the share of all that is due; see `archive.verify_days`. */
export async function shareStep(run: Run): Promise<void> {
  const { archive, context, id: runId } = run;
  const { clock, signal } = context;
  const how = { runId, clock, signal };
  // A publish may have replaced one while it was read: what counts is what is there now.
  warn(run, await hashFiles(archive, filesAt(archive, archive.refused), how));
  const everyMs = context.settings.archive.verifyDays * dayMs;
  warn(run, await hashShare(archive, { ...how, everyMs, msMax: shareMsMax }));
}

/** Looks at the whole archive, and remembers what was found in place of what was known before. */
export async function verifyAllStep(run: Run, onProgress: (done: number, total: number) => void): Promise<Verified> {
  const begunAt = run.context.clock.nowMs();
  const found = await verify(run.archive, null, onProgress, run.context.signal);
  noteVerified(run.archive, found, run.id, begunAt);
  return found;
}

function warn({ context }: Run, found: readonly Damage[]): void {
  const [first] = found;
  if (first !== undefined)
    context.log.warn({ files: found.length, path: first.path, kind: first.kind }, 'published files are damaged');
}
