import type { Archive } from '../../archive/archive.ts';
import type { PushSummary } from '../../archive/journal/run-summary.ts';
import { DamageError } from '../../base/errors.ts';
import type { Context } from '../../context/context.ts';
import { createJobFailure, type RunFailure } from '../run/judge-run.ts';
import type { Run } from '../run/run.ts';
import { pushByUrl } from './bucket-access.ts';
import { hashRefusedFiles } from './publish-step.ts';

/** A push to the bucket in the settings, as a run reports it. */
export interface PushReport {
  /** Null if the push failed. */
  readonly pushed: PushSummary | null;
  readonly warnings: readonly string[];
  readonly failures: readonly RunFailure[];
  /** Set if a local file is damaged. */
  readonly damage: DamageError | null;
}

/**
 * Pushes the published generation to the bucket in the settings, if there is one. The run has already published, so a push that
 * fails is a failure of the run and loses nothing: the next push continues it.
 * @throws InterruptedError
 * @throws DamageError if a local file is damaged
 */
export async function pushPublished(run: Run): Promise<void> {
  const report = await reportPush(run.context, run.archive, run.id);
  if (report === null) return;
  const { pushed, warnings, failures, damage } = report;
  if (pushed !== null) run.pushed = pushed;
  run.warnings.push(...warnings);
  run.failures.push(...failures);
  if (damage !== null) throw damage;
}

/**
 * Pushes the published generation to the bucket in the settings. Null if there is no bucket, or nothing is published.
 * @param runId under which damage of local files is recorded
 * @throws InterruptedError
 */
export async function reportPush(context: Context, archive: Archive, runId: string): Promise<PushReport | null> {
  const { url } = context.settings.bucket;
  if (url === null || archive.state.generation() === 0) return null;
  try {
    const { warnings, ...pushed } = await pushByUrl(context, archive, undefined, false);
    context.log.info({ url: pushed.url, outcome: pushed.outcome, generation: pushed.generation }, 'pushed');
    return { pushed, warnings, failures: [], damage: null };
  } catch (error) {
    context.signal.throwIfAborted();
    context.log.debug({ err: error }, 'the push failed');
    const why = error instanceof Error ? error.message : String(error);
    const failures = [createJobFailure('push', `The published generation was not pushed to ${url}: ${why}`)];
    if (!(error instanceof DamageError)) return { pushed: null, warnings: [], failures, damage: null };
    await hashRefusedFiles(context, archive, runId);
    return { pushed: null, warnings: [], failures, damage: error };
  }
}
