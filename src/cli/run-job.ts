import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Summary } from '../archive/journal/run-summary.ts';
import { exitCodes } from '../base/errors.ts';
import type { Job } from '../collector/job.ts';
import { emptyFacts, summarize } from '../collector/run/summary.ts';
import type { Context } from '../context/context.ts';
import { listSecrets } from '../settings/settings.ts';
import { type CliContext, type CommonFlags, type SourceFlags, withContext } from './command-context.ts';
import type { SummaryDetails } from './print-summary.ts';
import { removeSecrets, requireOwner } from './require-owner.ts';

/**
 * Runs a job and prints its summary, as text or as one JSON line.
 * @param printsResult the job prints its own result, so that the summary is printed only after a warning or an error
 * @param getDetails what the job adds to its summary; called after its end
 */
export async function runJobCommand<F>(
  shell: CliContext,
  name: string,
  flags: CommonFlags & SourceFlags & { readonly dryRun?: boolean },
  load: () => Promise<Job<F>>,
  parse: () => F | Promise<F>,
  printsResult = false,
  getDetails: () => SummaryDetails | null = () => null,
): Promise<void> {
  const startedAt = performance.timeOrigin;
  let root = '';
  let summary: Summary;
  try {
    // Usage errors must end the command before anything is opened.
    const jobFlags = await parse();
    summary = await withContext(flags, shell.version, false, async (context: Context) => {
      root = context.settings.archive.output;
      const { requireLocalArchive } = await import('../context/open-configured.ts');
      requireLocalArchive(context.settings);
      const job = await load();
      try {
        if (flags.dryRun !== true) requireOwner(context.settings);
        return await job.run({ ...context, argv: removeSecrets(listSecrets(context.settings), shell.args) }, jobFlags);
      } catch (error) {
        // The settings are known, so notifications can be sent even though the run did not start.
        const notStarted = summarizeNotStarted(name, shell.version, startedAt, error);
        if (flags.dryRun === true) return notStarted;
        const { afterRun } = await import('../collector/notifications/after-run.ts');
        await afterRun(context, notStarted);
        return notStarted;
      }
    });
  } catch (error) {
    summary = summarizeNotStarted(name, shell.version, startedAt, error);
  }
  const isClean = summary.exit_code === exitCodes.done && summary.warnings_count === 0;
  if (printsResult && isClean && flags.json !== true) return;
  const { reportSummary } = await import('./print-summary.ts');
  reportSummary(shell, flags, summary, root, getDetails());
}

/**
 * A dry run for a folder that has no archive yet uses one in a temporary folder, so that it creates none.
 * @param usesState whether it needs what an archive knows; otherwise it uses a temporary one of the same service or sources
 */
export const withScratchArchive = <F>(job: Job<F>, usesState: boolean): Job<F> => ({
  ...job,
  async run(context, flags) {
    const { archive } = context.settings;
    const exists = !archive.outputNamed || context.disk.list(archive.output).length > 0;
    if (exists && usesState) return await job.run(context, flags);
    const output = mkdtempSync(join(tmpdir(), 'oddslake-dry-run-'));
    try {
      if (exists) await createTwin(context, output);
      return await job.run({ ...context, settings: { ...context.settings, archive: { ...archive, output } } }, flags);
    } finally {
      rmSync(output, { recursive: true, force: true });
    }
  },
});

/** Creates an empty archive of the same service or sources as that of the settings. */
async function createTwin(context: Context, root: string): Promise<void> {
  const [{ openConfiguredArchive }, { openArchive }] = await Promise.all([
    import('../context/open-configured.ts'),
    import('../archive/open-archive.ts'),
  ]);
  const { state, writer } = openConfiguredArchive(context, false);
  const { identity } = state;
  state.close();
  const upstream = identity.sources.length === 0 ? identity.upstream : null;
  openArchive({ root, create: true, ...identity, upstream, writer }, context.disk).close();
}

/** Summary of a job that ended before it started. Times in epoch ms. */
export const summarizeNotStarted = (
  job: string,
  version: string,
  startedAt: number,
  error: unknown,
  finishedAt = startedAt + performance.now(),
): Summary =>
  summarize({
    ...emptyFacts,
    version,
    job,
    started_at: Math.round(startedAt),
    finished_at: Math.round(finishedAt),
    strict: false,
    thrown: error,
  });
