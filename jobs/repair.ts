import type { Job, RepairFlags } from '../src/collector/run/job.ts';
import { runJob } from '../src/collector/run/run.ts';
import { reportDataLoss } from '../src/collector/steps/gaps-step.ts';
import { publishJournal, verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';
import {
  refetchLostWindows,
  repairDamage,
  replayRawResponses,
  reportLossesWithoutUpstream,
} from '../src/collector/steps/repair-step.ts';
import { countRestored } from '../src/collector/steps/track-lost-windows.ts';
import { requireOtherUpstream } from '../src/settings/settings.ts';

/** Mends what is damaged and has what was lost again: of answers that were kept, from the upstream or another oddslake. */
export const job: Job<RepairFlags> = {
  name: 'repair',
  async run(context, { fromUrl, onRepaired }) {
    const other = fromUrl === null ? null : requireOtherUpstream(context.settings, fromUrl);
    const { baseUrl, apiKey } = context.settings.upstream;
    // An archive is mended where nothing is collected, too: a copy on another machine.
    const upstream = other === null && baseUrl !== null && apiKey !== null;
    return runJob(context, 'repair', { usesUpstream: upstream, otherUpstream: other, isRepair: true }, async (run) => {
      await repairDamage(run, onRepaired);
      await countRestored(run, 'raw', () => replayRawResponses(run));
      if (upstream || other !== null) await countRestored(run, 'asked', () => refetchLostWindows(run));
      else reportLossesWithoutUpstream(run);
      await publishJournal(run);
      await verifyPublishedFiles(run);
      reportDataLoss(run);
    });
  },
};
