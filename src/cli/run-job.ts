import { exitCodes } from '../base/errors.ts';
import type { Job } from '../collector/run/job.ts';
import { emptyBookCounts, type Summary, summarize } from '../collector/run/summary.ts';
import type { Context } from '../context/context.ts';
import { listSecrets } from '../settings/settings.ts';
import { type CliContext, type CommonFlags, withContext } from './command-context.ts';
import { reportSummary } from './print-summary.ts';

/**
 * Runs a job and prints its summary: for a person, or as one JSON line. `shown`: whether the job has shown its result to a
 * person itself, so that a summary of a run without a flaw would only be in the way.
 */
export async function runJobCommand<F>(
  shell: CliContext,
  name: string,
  flags: CommonFlags,
  load: () => Promise<Job<F>>,
  parse: () => F | Promise<F>,
  shown = false,
): Promise<void> {
  const startedAt = performance.timeOrigin;
  let root = '';
  let summary: Summary;
  try {
    // Flags first: bad usage ends before anything is opened.
    const own = await parse();
    summary = await withContext(flags, shell.version, false, async (context: Context) => {
      root = context.settings.archive.output;
      const job = await load();
      try {
        return await job.run({ ...context, argv: removeSecrets(listSecrets(context.settings), shell.args) }, own);
      } catch (thrown) {
        // Of settings that were read and a run that did not begin others are told, too.
        const ended = summarizeNotStarted(name, shell.version, startedAt, thrown);
        const { afterRun } = await import('../collector/notifications/after-run.ts');
        await afterRun(context, ended);
        return ended;
      }
    });
  } catch (thrown) {
    summary = summarizeNotStarted(name, shell.version, startedAt, thrown);
  }
  const flawless = summary.exit_code === exitCodes.done && summary.warnings_count === 0;
  if (!(shown && flawless && flags.json !== true)) reportSummary(shell, flags, summary, root);
}

/** Words of a command line without the settings that are secret: they are not printed, and come from the environment. */
function removeSecrets(secrets: readonly string[], words: readonly string[]): string[] {
  const isSecret = (word: string | undefined): boolean => secrets.some((secret) => word?.includes(secret) === true);
  return words.filter((word, i) => !isSecret(word) && !(word === '--set' && isSecret(words[i + 1])));
}

/** The summary of a job that ended before it was begun; times in epoch ms. */
export const summarizeNotStarted = (
  job: string,
  version: string,
  startedAt: number,
  thrown: unknown,
  finishedAt = startedAt + performance.now(),
): Summary =>
  summarize({
    version,
    job,
    run_id: null,
    started_at: Math.round(startedAt),
    finished_at: Math.round(finishedAt),
    requests: 0,
    retries: 0,
    throttled_ms: 0,
    pages: 0,
    recovered: 0,
    generation: 0,
    watermark: null,
    gaps: 0,
    ticks: { fetched: 0, accepted: 0, duplicates: 0, conflicts: 0, quarantined: 0 },
    symbols: { planned: 0, done: 0, failed: 0, suspended: 0 },
    orderbooks: emptyBookCounts,
    warnings: [],
    failures: [],
    files: [],
    strict: false,
    hasUpstreamResponded: false,
    thrown,
  });
