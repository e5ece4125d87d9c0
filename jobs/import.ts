import { type ImportFlags, importFiles, prepareImport } from '../src/collector/import/import-step.ts';
import { type Job, runJob } from '../src/collector/job.ts';
import type { Run } from '../src/collector/run/run.ts';
import { reportDataLoss } from '../src/collector/steps/gaps-step.ts';
import { verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';
import type { Context } from '../src/context/context.ts';

/** Input that was checked before anything is opened or written. */
interface PreparedImport {
  import(run: Run): Promise<void>;
  release(): void;
}

async function prepare(context: Context, flags: ImportFlags): Promise<PreparedImport> {
  if (flags.isFolded === true) {
    const [{ prepareFolded }, { importFolded }] = await Promise.all([
      import('../src/collector/import/folded-input.ts'),
      import('../src/collector/import/import-folded.ts'),
    ]);
    const folded = await prepareFolded(context, flags.paths[0]!);
    return { import: (run) => importFolded(run, folded, flags.preferred), release: folded.release };
  }
  const input = await prepareImport(context, flags);
  return { import: (run) => importFiles(run, input), release: () => {} };
}

/** Imports recordings from files, with the same checks, deduplication and publish as polled ticks. */
export const job: Job<ImportFlags> = {
  name: 'import',
  async run(context, flags) {
    const input = await prepare(context, flags);
    try {
      const needs = { usesUpstream: false, canCreateArchive: true, isDryRun: flags.showCheck !== null };
      return await runJob(context, 'import', needs, async (run) => {
        await input.import(run);
        if (flags.showCheck !== null) return;
        await verifyPublishedFiles(run);
        reportDataLoss(run);
      });
    } finally {
      input.release();
    }
  },
};
