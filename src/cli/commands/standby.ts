import { type Command, Option } from 'commander';
import { exitCodes } from '../../base/errors.ts';
import { InterruptedError } from '../../context/context.ts';
import { type CliContext, type CommonFlags, printResult, withCommonFlags, withContext } from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { createSourceOption } from '../options.ts';
import { runSchedule } from './schedule.ts';

interface StandbyFlags extends CommonFlags {
  readonly now?: boolean;
  readonly exit?: boolean;
}

/** `standby`: waits for the lease of the bucket, then collects. */
export function addStandby(command: Command, shell: CliContext): void {
  command
    .addOption(new Option('--now', 'take over at once, also from a machine whose lease has not expired'))
    .addOption(new Option('--exit', 'end once this machine holds the lease, instead of running the schedule'))
    .addOption(createSourceOption());
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command, ['--no-progress']).action((flags: StandbyFlags) =>
    withContext({ ...flags, progress: false }, shell.version, false, async (context) => {
      const { waitForLease } = await import('../../collector/schedule/standby.ts');
      const lease = await waitForLease(context, flags.now === true).catch((error: unknown) => {
        // A service that is stopped has not failed, as with a schedule.
        if (error instanceof InterruptedError && flags.exit !== true) return null;
        throw error;
      });
      if (lease === null) return;
      const { host, token } = lease;
      context.log.info({ host, token }, 'this machine collects now');
      if (flags.exit !== true) return await runSchedule(shell, flags, context);
      const { url } = context.settings.bucket;
      const result = { version: shell.version, job: 'standby', exit_code: exitCodes.done, url, host, token };
      printResult(flags, result, () => `${url}: ${host} holds the lease (token ${token})\n`);
    }),
  );
}

const notes = `
Needs bucket.url and bucket.lease_minutes in the config of both machines. Jobs that change the archive then need the lease, an
object in the bucket that they renew while they run, as the schedule does. On the other machine they end with exit code 5. The
manifest in the bucket has the token of the last takeover, and a push with an older one is refused (exit 5): a machine that was
only cut off cannot overwrite what the new one collects. What it collected meanwhile is in its own archive and nowhere else.

Start oddslake standby as the service of both machines: the first one collects, the other one waits. docs/STANDBY.md has a drill.

Exit codes: 2 if the local archive has data that the bucket lacks: use a new folder; 3 if the credential is refused; 6 if an object
is damaged. A bucket that cannot be reached is waited for.`;

const examples = `
  oddslake standby --config oddslake.yaml            # then runs the schedule
  oddslake standby --config oddslake.yaml --now --exit && oddslake nightly --config oddslake.yaml`;
