import type { Job, RepairFlags } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { countRestored } from '../src/app/steps/count-restored.ts';
import { publishStep, verifyStep } from '../src/app/steps/publish-step.ts';
import { rawReplayStep } from '../src/app/steps/raw-replay-step.ts';
import { nobodyToAsk, refetchStep } from '../src/app/steps/refetch-step.ts';
import { repairStep } from '../src/app/steps/repair-step.ts';
import { lostStep } from '../src/app/steps/report-data-loss.ts';
import { requireOther } from '../src/settings/settings.ts';

/** Mends what is damaged and has what was lost again: of answers that were kept, from the upstream or another oddslake. */
export const job: Job<RepairFlags> = {
  name: 'repair',
  async run(context, { fromUrl, show }) {
    const other = fromUrl === null ? null : requireOther(context.settings, fromUrl);
    const { baseUrl, apiKey } = context.settings.upstream;
    // An archive is mended where nothing is collected, too: a copy on another machine.
    const upstream = other === null && baseUrl !== null && apiKey !== null;
    return runJob(context, 'repair', { upstream, other, mends: true }, async (run) => {
      await repairStep(run, show);
      await countRestored(run, 'raw', () => rawReplayStep(run));
      if (upstream || other !== null) await countRestored(run, 'asked', () => refetchStep(run));
      else nobodyToAsk(run);
      await publishStep(run);
      await verifyStep(run);
      lostStep(run);
    });
  },
};
