import type { Job, TicksFlags } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { gapsStep } from '../src/app/steps/gaps-step.ts';
import { endOfPoll, marketsStep, ticksStep } from '../src/app/steps/poll-steps.ts';
import { noneListed } from '../src/app/steps/polled-symbols.ts';
import { publishStep, verifyStep } from '../src/app/steps/publish-step.ts';
import { lostStep } from '../src/app/steps/report-data-loss.ts';
import { suspendedNames, suspendedStep } from '../src/app/steps/suspended-step.ts';

/** One poll of ticks up to now, published. */
export const job: Job<TicksFlags> = {
  name: 'ticks',
  async run(context, { symbols: given, retriesSuspended }) {
    const end = endOfPoll(context, null);
    return runJob(context, 'ticks', { upstream: true }, async (run) => {
      const symbols = retriesSuspended === true && given.length === 0 ? suspendedNames(run) : given;
      if (retriesSuspended === true && symbols.length === 0) return;
      const unnamed = symbols.length === 0 && context.settings.symbols.length === 0;
      if (unnamed && noneListed(run)) await marketsStep(run);
      await ticksStep(run, end, symbols);
      await publishStep(run);
      await verifyStep(run);
      gapsStep(run, { symbols, window: { from: Number.NEGATIVE_INFINITY, to: end }, fromNamed: false });
      suspendedStep(run);
      lostStep(run);
    });
  },
};
