import type { Summary } from '../src/archive/journal/run-summary.ts';
import { importFiles } from '../src/collector/import/import-step.ts';
import { type ImportFlags, prepareImport } from '../src/collector/import/prepare-import.ts';
import { type Job, runJob } from '../src/collector/job.ts';
import { reportDataLoss } from '../src/collector/steps/gaps-step.ts';
import { verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';
import type { Context } from '../src/context/context.ts';

async function takeArchive(
  context: Context,
  { place, showPlan }: NonNullable<ImportFlags['archive']>,
): Promise<Summary> {
  const { importArchive, withOtherArchive } = await import('../src/collector/import/import-archive.ts');
  const needs = { usesUpstream: false, canCreateArchive: true, isDryRun: showPlan !== null };
  return await withOtherArchive(context, place, (other) =>
    runJob(context, 'import', needs, async (run) => {
      await importArchive(run, other, showPlan);
      if (showPlan === null) await verifyPublishedFiles(run);
    }),
  );
}

/** Imports recordings from files, with the same checks, deduplication and publish as polled ticks. */
export const job: Job<ImportFlags> = {
  name: 'import',
  async run(context, flags) {
    if (flags.archive !== undefined) return await takeArchive(context, flags.archive);
    // Input is checked before anything is opened or written.
    const input = await prepareImport(context, flags);
    const needs = { usesUpstream: false, canCreateArchive: true, isDryRun: flags.showCheck !== null };
    return await runJob(context, 'import', needs, async (run) => {
      await importFiles(run, input);
      if (flags.showCheck !== null) return;
      await verifyPublishedFiles(run);
      reportDataLoss(run);
    });
  },
};
