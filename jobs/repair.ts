import { replayRawResponses } from '../src/collector/import/import-raw.ts';
import { type Job, type RepairFlags, runJob } from '../src/collector/job.ts';
import { reportDataLoss } from '../src/collector/steps/gaps-step.ts';
import { publishJournal, verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';
import { refetchLostWindows, repairDamage, reportLossesWithoutUpstream } from '../src/collector/steps/repair-step.ts';
import { countRestored } from '../src/collector/steps/track-lost-windows.ts';
import { hasUpstream, listSourceSettings, requireOtherUpstream } from '../src/settings/settings.ts';

/** Repairs damage and restores lost ticks: from raw responses, then from the upstream or another oddslake. */
export const job: Job<RepairFlags> = {
  name: 'repair',
  async run(context, { fromUrl, onRepaired }) {
    const other = fromUrl === null ? null : requireOtherUpstream(context.settings, fromUrl);
    // A copy on a machine that does not collect can be repaired without an upstream, and with those of some sources.
    const usesUpstream = other === null && listSourceSettings(context.settings).some(hasUpstream) ? 'if set' : false;
    let isRepaired = false;
    return runJob(context, 'repair', { usesUpstream, otherUpstream: other, mode: 'repair' }, async (run) => {
      // One repair mends the files of all sources. Each source has its own lost windows.
      if (!isRepaired) await repairDamage(run, onRepaired);
      isRepaired = true;
      await countRestored(run, 'raw', () => replayRawResponses(run));
      if (other !== null || hasUpstream(run.context.settings))
        await countRestored(run, 'upstream', () => refetchLostWindows(run));
      else reportLossesWithoutUpstream(run);
      await publishJournal(run);
      await verifyPublishedFiles(run);
      reportDataLoss(run);
    });
  },
};
