import type { Job, VerifyFlags } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { verifyAllStep } from '../src/app/steps/damage-steps.ts';

/** Re-reads and re-hashes every published file; what is damaged is remembered until a verify or a repair is clean. */
export const job: Job<VerifyFlags> = {
  name: 'verify',
  run: (context, { show }) =>
    runJob(context, 'verify', { upstream: false, verifies: true }, async (run) => {
      const display = await context.startDisplay('verify', 1, 'files');
      try {
        const found = await verifyAllStep(run, (done, total) => display.update({ done, total }));
        display.stop();
        show(found, run.archive, run.id);
      } finally {
        display.stop();
      }
    }),
};
