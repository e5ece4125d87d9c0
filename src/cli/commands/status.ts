import type { Command } from 'commander';
import { exitCodes } from '../../base/errors.ts';
import { parseDuration } from '../../base/time.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  type SourceFlags,
  withCommonFlags,
  withReadableArchive,
} from '../command-context.ts';
import { formatStatus } from '../format-archive.ts';
import { withExamples } from '../help.ts';
import { createSourceOption } from '../shared-options.ts';

interface StatusFlags extends CommonFlags, SourceFlags {
  readonly maxLag?: string;
}

/** `status`: coverage, gaps and the last run. */
export function addStatus(command: Command, shell: CliContext): void {
  command
    .option('--max-lag <duration>', 'maximum lag of coverage behind now: 90s, 15m, 2h, 1d')
    .addOption(createSourceOption());
  withExamples(command, examples);
  withCommonFlags(command, flagsUnusedByReaders, true).action((flags: StatusFlags) => {
    // A usage error must end the command before anything is opened.
    const maxLagMs = flags.maxLag === undefined ? null : parseDuration(flags.maxLag, '--max-lag');
    return withReadableArchive(flags, shell.version, async (archive, context) => {
      const [{ readStatus }, { toCompletenessRules }] = await Promise.all([
        import('../../archive/read/status.ts'),
        import('../../context/open-configured.ts'),
      ]);
      const rules = toCompletenessRules(context.settings);
      const status = readStatus(archive, rules, context.clock.nowMs(), flags.source);
      printResult(flags, status, (style) => formatStatus(status, style));
      const isLate = maxLagMs !== null && (status.lag_ms === null || status.lag_ms > maxLagMs);
      if (isLate) process.stderr.write(`oddslake: the lag exceeds --max-lag ${flags.maxLag}.\n`);
      shell.setExitCode(isLate ? exitCodes.incomplete : exitCodes.done);
    });
  });
}

const examples = `
  oddslake status --output lake
  oddslake status --output lake --max-lag 26h || echo 'the lake is late' >&2
  oddslake status --output lake --json | jq .lag_ms
  oddslake status --archive s3://lakes/markets`;
