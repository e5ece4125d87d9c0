import { type Command, Option } from 'commander';
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
import { formatFindingLines, formatVerdictLines } from '../format-findings.ts';
import { withExamples, withHelp } from '../help.ts';
import { requireOwner } from '../require-owner.ts';
import { createSourceOption } from '../shared-options.ts';

interface StatusFlags extends CommonFlags, SourceFlags {
  readonly maxLag?: string;
  readonly prometheus?: boolean;
}

/** `status`: coverage, gaps and the last run. */
export function addStatus(command: Command, shell: CliContext): void {
  command
    .option('--max-lag <duration>', 'maximum lag of coverage behind now: 90s, 15m, 2h, 1d')
    .addOption(
      new Option('--prometheus', 'metrics of the archive and its last runs in the text format of Prometheus').conflicts(
        ['json', 'maxLag', 'source'],
      ),
    )
    .addOption(createSourceOption());
  withExamples(command, statusExamples);
  withCommonFlags(command, flagsUnusedByReaders, true).action((flags: StatusFlags) => {
    // A usage error must end the command before anything is opened.
    const maxLagMs = flags.maxLag === undefined ? null : parseDuration(flags.maxLag, '--max-lag');
    return withReadableArchive(flags, shell.version, async (archive, context) => {
      const [{ readStatus }, { readArchiveStatus }, { judge }, { toCompletenessRules }] = await Promise.all([
        import('../../archive/read/status.ts'),
        import('../../archive/read/archive-status.ts'),
        import('../../archive/read/judge.ts'),
        import('../../context/open-configured.ts'),
      ]);
      const rules = toCompletenessRules(context.settings);
      const nowMs = context.clock.nowMs();
      const lagMsMax = context.settings.service.lagSecondsMax * 1000;
      const facts = { nowMs, lagMsMax, status: readArchiveStatus(archive, nowMs) };
      if (flags.prometheus === true) {
        const [{ formatExposition }, { listLastRunRecords, listMonitorSamples }] = await Promise.all([
          import('../../metrics/prometheus.ts'),
          import('../../collector/run/last-runs.ts'),
        ]);
        const runs = listLastRunRecords(archive.state.db, nowMs);
        process.stdout.write(await formatExposition(listMonitorSamples(context.version, runs, facts)));
        return;
      }
      const status = { ...judge(facts), ...readStatus(archive, rules, nowMs, flags.source) };
      printResult(flags, status, (style) => formatStatus(status, style, flags.verbose === true));
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
  oddslake status --output lake --prometheus > oddslake.prom
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
        const written = await writeReport(archive, context, flags.out ?? null);
        const { path, bytes, generation, verdict, findings } = written;
        printResult(flags, written, (style) =>
          [
            ...formatVerdictLines(verdict, style),
            ...formatFindingLines(findings, style, flags.verbose === true),
            `${path}: ${formatBytes(bytes)}, generation ${generation}`,
            '',
          ].join('\n'),
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
