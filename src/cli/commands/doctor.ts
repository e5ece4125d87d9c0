import type { Command } from 'commander';
import { OddslakeError } from '../../base/errors.ts';
import type { Diagnosis } from '../../doctor/doctor.ts';
import {
  type CliContext,
  type CommonFlags,
  printResult,
  toSettingSources,
  withCommonFlags,
  withContext,
} from '../command-context.ts';
import { formatDiagnosis } from '../format-doctor.ts';
import { withHelp } from '../help.ts';
import { createSourceOption } from '../shared-options.ts';

interface DoctorFlags extends CommonFlags {
  readonly offline?: boolean;
}

/** `doctor`: checks everything that a run needs. */
export function addDoctor(command: Command, shell: CliContext): void {
  command.option('--offline', 'make no network requests').addOption(createSourceOption());
  withHelp(command, notes, examples);
  withCommonFlags(command, ['--no-progress', '--wait']).action(async (flags: DoctorFlags) => {
    const diagnosis = await runDiagnosis(shell, flags);
    printResult(flags, diagnosis, (style) => formatDiagnosis(diagnosis, style));
    shell.setExitCode(diagnosis.exit_code);
  });
}

/** Runs the checks with the settings that the flags select. */
export async function runDiagnosis(shell: CliContext, flags: DoctorFlags): Promise<Diagnosis> {
  const [{ diagnose, diagnoseUnreadableSettings }, { listChosenSettings }, { systemClock }] = await Promise.all([
    import('../../doctor/doctor.ts'),
    import('../../settings/load.ts'),
    import('../../base/system.ts'),
  ]);
  const sources = toSettingSources(flags);
  let isRead = false;
  try {
    return await withContext(flags, shell.version, false, async (context) => {
      isRead = true;
      const { requireLocalArchive } = await import('../../context/open-configured.ts');
      requireLocalArchive(context.settings);
      const chosen = await listChosenSettings(sources);
      return diagnose(context, { nonDefaultSettings: chosen, env: sources.env, isOnline: flags.offline !== true });
    });
  } catch (error) {
    // Invalid settings are reported as a finding.
    if (isRead || !(error instanceof OddslakeError)) throw error;
    const strict = flags.strict === true;
    return diagnoseUnreadableSettings(error, { version: shell.version, clock: systemClock, strict });
  }
}

const notes = `
doctor changes nothing: what it creates to try the folders of the next run is removed at once. It sends the
upstream a request for a list of one market and one for the ticks of a live symbol, within the rate limit that the archive's processes share. It checks the size of every published file and reads a few of them; oddslake verify reads all.

Exit codes: 0 no problem (with --strict, 4 if there are warnings); otherwise the first that applies: 2 settings or no archive,
6 archive damaged, 1 disk, permissions or clock, 7 upstream unreachable, 3 key rejected, 4 upstream error.`;

const examples = `
  oddslake doctor --output lake
  oddslake doctor --config oddslake.yaml --json`;
