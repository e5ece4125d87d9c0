import { type RecordedDamage, readRecordedDamage } from '../../archive/journal/published-files.ts';
import type { Summary } from '../../archive/journal/run-summary.ts';
import { type Context, InterruptedError } from '../../context/context.ts';
import { openConfiguredArchive } from '../../context/open-configured.ts';
import { emptyFacts, type RunFacts, summarize } from '../run/summary.ts';
import { type PushReport, reportPush } from '../steps/push-step.ts';
import { pushTaskName } from './job-status.ts';

/** The pushes of a schedule, beside its jobs: a job does not wait for an upload, which may take longer than its interval. */
export type PushTask = ReturnType<typeof openPushTask>;

/**
 * Opens the pushes of a schedule. They end with the signal of the context, which leaves the rest to the next push.
 * @param push pushes once, as `pushFromSchedule`
 * @param onEnd called with the summary of each push that ended by itself
 */
export function openPushTask(
  { signal, log }: Pick<Context, 'signal' | 'log'>,
  push: () => Promise<Summary | null>,
  onEnd: (summary: Summary) => Promise<void>,
) {
  let isRequested = false;
  let isRunning = false;
  let ended: Promise<void> = Promise.resolve();
  async function pushWhileRequested(): Promise<void> {
    while (isRequested && !signal.aborted) {
      isRequested = false;
      try {
        const summary = await push();
        if (summary !== null) await onEnd(summary);
      } catch (err) {
        log.error({ err }, 'a push could not be reported');
      }
    }
    isRunning = false;
  }
  return {
    /**
     * Asks for a push of the generation that is published now. Returns at once. One push runs at a time; what is published during a
     * push is pushed after it.
     */
    request() {
      isRequested = true;
      if (isRunning) return;
      isRunning = true;
      ended = pushWhileRequested();
    },
    /** Resolves when no push is running. */
    waitUntilIdle: () => ended,
  };
}

/** Whether a push found nothing to do, which is as frequent as the jobs of a schedule. */
export const isIdlePush = ({ job, pushed, warnings_count }: Summary): boolean =>
  job === pushTaskName && pushed?.outcome === 'unchanged' && warnings_count === 0;

/**
 * Pushes the published generation to the bucket in the settings. Returns the summary, whose failures and exit code are those of
 * a job that pushes; null if nothing is published, or the signal ended the push.
 */
export async function pushFromSchedule(context: Context): Promise<Summary | null> {
  const { clock, log, version, strict } = context;
  const startedAt = clock.nowMs();
  let generation = 0;
  let report: PushReport | null = null;
  let damage: readonly RecordedDamage[] = [];
  let thrown: unknown;
  try {
    using archive = openConfiguredArchive(context, false);
    generation = archive.state.generation();
    report = await reportPush(context, archive, pushTaskName);
    if (report !== null && report.damage !== null) damage = readRecordedDamage(archive.state.db);
    if (report === null) return null;
    thrown = report.damage ?? undefined;
  } catch (error) {
    if (error instanceof InterruptedError) {
      log.info({}, 'the push was stopped; the next one continues where it ended');
      return null;
    }
    thrown = error;
  }
  const facts: RunFacts = {
    ...emptyFacts,
    version,
    job: pushTaskName,
    strict,
    started_at: startedAt,
    finished_at: clock.nowMs(),
    generation,
    damage,
    warnings: report?.warnings ?? [],
    failures: report?.failures ?? [],
    ...(report !== null && report.pushed !== null && { pushed: report.pushed }),
    thrown,
  };
  return summarize(facts);
}
