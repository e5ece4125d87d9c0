import { importFolded, prepareFolded } from '../src/collector/import/import-folded.ts';
import { type ImportFlags, importFiles, prepareImport } from '../src/collector/import/import-step.ts';
import { type Job, runJob } from '../src/collector/job.ts';
import type { Run } from '../src/collector/run/run.ts';
import { reportDataLoss } from '../src/collector/steps/gaps-step.ts';
import { verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';
import type { Context } from '../src/context/context.ts';

/** Checks the input before anything is opened or written. */
async function prepare(context: Context, flags: ImportFlags): Promise<(run: Run) => Promise<void>> {
  if (flags.isFolded === true) {
    const folded = await prepareFolded(flags.paths[0]!);
    return (run) => importFolded(run, folded, flags.preferred);
  }
  const input = await prepareImport(context, flags);
  return (run) => importFiles(run, input);
}

/** Imports recordings from files, with the same checks, deduplication and publish as polled ticks. */
export const job: Job<ImportFlags> = {
  name: 'import',
  async run(context, flags) {
    const work = await prepare(context, flags);
    return runJob(context, 'import', { usesUpstream: false, canCreateArchive: true }, async (run) => {
      await work(run);
      if (flags.showCheck !== null) return;
      await verifyPublishedFiles(run);
      reportDataLoss(run);
    });
  },
};
