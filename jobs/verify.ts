import { type Job, runJob, type VerifyFlags } from '../src/collector/job.ts';
import { verifyAllFiles } from '../src/collector/steps/publish-step.ts';

/** Reads and hashes every published file. Records damage until a verify or a repair finds none. */
export const job: Job<VerifyFlags> = {
  name: 'verify',
  run: (context, { onVerified }) =>
    runJob(context, 'verify', { usesUpstream: false, mode: 'verify' }, async (run) => {
      const display = await context.startDisplay('verify', 1, 'files');
      try {
        const found = await verifyAllFiles(run, (done, total) => display.update({ done, total }));
        display.stop();
        onVerified(found, run.archive, run.id);
      } finally {
        display.stop();
      }
    }),
};
