import type { Command } from 'commander';
import { exitCodes, UsageError } from '../../base/errors.ts';
import { formatBytes } from '../../base/format-quantity.ts';
import { parseDuration } from '../../base/time.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  openReadableArchive,
  printResult,
  type SourceFlags,
  withCommonFlags,
  withContext,
  withReadableArchive,
} from '../command-context.ts';
import { formatStatus } from '../format-archive.ts';
import { withExamples, withHelp } from '../help.ts';
import { requireOwner } from '../require-owner.ts';
import { createSourceOption } from '../shared-options.ts';
import { escapeControls } from '../terminal-style.ts';

interface StatusFlags extends CommonFlags, SourceFlags {
  readonly maxLag?: string;
}

/** `status`: coverage, gaps and the last run. */
export function addStatus(command: Command, shell: CliContext): void {
  command
    .option('--max-lag <duration>', 'maximum lag of coverage behind now: 90s, 15m, 2h, 1d')
    .addOption(createSourceOption());
  withExamples(command, statusExamples);
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

const statusExamples = `
  oddslake status --output lake
  oddslake status --output lake --max-lag 26h || echo 'the lake is late' >&2
  oddslake status --output lake --json | jq .lag_ms
  oddslake status --archive s3://lakes/markets`;

interface ReportFlags extends CommonFlags {
  readonly out?: string;
}

/** `report`: writes the status of the archive as an HTML page. */
export function addReport(command: Command, shell: CliContext): void {
  command.option('--out <file>', "output file, replaced if it exists (default: report.html in the archive's root)");
  withHelp(command, reportNotes, reportExamples);
  withCommonFlags(command, flagsUnusedByReaders, true).action((flags: ReportFlags) =>
    withContext(flags, shell.version, false, (context) => {
      const { bucketUrl } = context.settings.archive;
      if (bucketUrl !== null && flags.out === undefined)
        throw new UsageError(
          `Where to? ${bucketUrl} is in object storage: name the file of the report with --out FILE.`,
        );
      if (flags.out === undefined) requireOwner(context.settings);
      return openReadableArchive(context, async (archive) => {
        const { writeReport } = await import('../../report/write-report.ts');
        const { health, ...written } = await writeReport(archive, context, flags.out ?? null);
        const { state, headline, nextAction, findings } = health;
        const { path, bytes, generation } = written;
        // The findings contain symbols and messages of the service.
        const lines = [
          `${path}: ${formatBytes(bytes)}, generation ${generation}`,
          `${headline}.`,
          ...findings.map(({ message }) => `  ${message}`),
          ...(nextAction === null ? [] : [`Next: ${nextAction}`]),
        ];
        printResult(
          flags,
          { ...written, state, headline, next_action: nextAction, findings },
          () => `${lines.map(escapeControls).join('\n')}\n`,
        );
      });
    }),
  );
}

const reportNotes = `
The page is self-contained, without scripts. It shows one generation and can be written while jobs run. nightly also
writes it unless report.nightly is false; report.days sets the number of days shown.`;

const reportExamples = `
  oddslake report
  oddslake report --out status.html
  oddslake report --archive s3://lakes/markets --out status.html`;
