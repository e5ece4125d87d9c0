import type { Command } from 'commander';
import type { Archive } from '../../archive/archive.ts';
import type { RepairedFile, RepairReport } from '../../archive/integrity/repair.ts';
import type { VerifyFinding, VerifyResult } from '../../archive/integrity/verify.ts';
import { exitCodes, UsageError } from '../../base/errors.ts';
import { formatBytes, formatCount, formatNumber } from '../../base/format-quantity.ts';
import { formatIsoUtc } from '../../base/time.ts';
import type { RepairFlags, VerifyFlags } from '../../collector/job.ts';
import { completeCommands } from '../../context/command-name.ts';
import { type CliContext, type CommonFlags, withCommonFlags, withContext } from '../command-context.ts';
import { withHelp } from '../help.ts';
import type { SummaryDetails } from '../print-summary.ts';
import { requireOwner } from '../require-owner.ts';
import { runJobCommand } from '../run-job.ts';
import { keepTogether, wrapText } from '../table.ts';
import { escapeControls, type TerminalStyle } from '../terminal-style.ts';

interface VerifyOptions extends CommonFlags {
  readonly repair?: boolean;
  readonly fromUrl?: string;
  readonly download?: boolean;
}

/** `verify`: checks every published file, and repairs damage with `--repair`. */
export function addVerify(command: Command, shell: CliContext): void {
  command
    .argument('[url]', 's3://BUCKET/PREFIX: check the objects there instead of the archive')
    .option('--repair', 'move damaged files aside, keep their intact row groups, and fetch the lost rows again')
    .option('--from-url <url>', 'with --repair: fetch lost rows from this oddslake service instead of the upstream')
    .option(
      '--download',
      'of a bucket: download and hash every object, instead of comparing the hashes that the server has',
    );
  withHelp(command, notes, examples);
  withCommonFlags(command).action((url: string | undefined, flags: VerifyOptions) => {
    if (url !== undefined) return runBucketVerify(shell, url, flags);
    if (flags.download === true)
      throw new UsageError('--download needs the address of a bucket: verify s3://BUCKET/PREFIX.');
    return flags.repair === true ? runRepair(shell, flags) : runVerify(shell, flags);
  });
}

async function runBucketVerify(shell: CliContext, url: string, flags: VerifyOptions): Promise<void> {
  if (flags.fromUrl !== undefined) throw new UsageError('--from-url is for an archive, not for a bucket.');
  const { verifyUrl } = await import('./bucket.ts');
  await verifyUrl(shell, url, flags);
}

async function runRepair(shell: CliContext, flags: VerifyOptions): Promise<void> {
  let details: SummaryDetails | null = null;
  const parse = (): RepairFlags => ({
    fromUrl: flags.fromUrl ?? null,
    onRepaired(repaired) {
      // As text, the outcome of the run comes first, and the damage that it has mended after it.
      if (flags.json === true) process.stdout.write(`${JSON.stringify({ repaired })}\n`);
      else details = formatRepair(repaired);
    },
  });
  await runJobCommand(shell, 'repair', flags, shell.jobs.repair, parse, false, () => details);
}

async function runVerify(shell: CliContext, flags: VerifyOptions): Promise<void> {
  if (flags.fromUrl !== undefined) throw new UsageError('--from-url needs --repair: without it nothing is fetched.');
  await withContext(flags, shell.version, false, async (context) => {
    requireOwner(context.settings);
    const job = await shell.jobs.verify();
    let isShown = false;
    const onVerified: VerifyFlags['onVerified'] = (result, archive, runId) => {
      printVerified(result, archive, runId, flags.json === true);
      isShown = true;
    };
    const summary = await job.run(context, { onVerified: onVerified });
    if (!isShown || (summary.error !== null && summary.exit_code !== exitCodes.damaged))
      (await import('../print-summary.ts')).reportSummary(shell, flags, summary, '');
    else shell.setExitCode(summary.exit_code);
  });
}

function printVerified(result: VerifyResult, archive: Archive, runId: string, asJson: boolean): void {
  if (asJson) process.stdout.write(`${JSON.stringify({ run_id: runId, ...result })}\n`);
  else {
    for (const { path, kind } of result.findings)
      process.stdout.write(`${path}: ${kind}${describeManifestEntry(path, kind, archive)}\n`);
    const resultText =
      result.findings.length === 0 ? 'no damage found' : formatCount(result.findings.length, 'problem');
    process.stdout.write(
      `${formatCount(result.files, 'file')}, ${formatBytes(result.bytes)}, generation ${result.generation}: ${resultText}\n`,
    );
    if (result.findings.length > 0)
      process.stderr.write(completeCommands('To repair the archive: oddslake verify --repair\n'));
  }
  if (result.state !== null) process.stderr.write(`oddslake: ${completeCommands(result.state)}\n`);
}

/** Generations of a manifest that is not the last published one. The files were checked against it nevertheless. */
const describeManifestEntry = (path: string, kind: VerifyFinding['kind'], { state, readManifest }: Archive): string =>
  path === 'manifest.json' && kind === 'checksum mismatch'
    ? ` with the last published manifest: expected generation ${state.generation()}, found generation ${readManifest().generation}`
    : '';

const notes = `
--repair moves damaged files to .oddslake/damaged, where they stay until you remove them, and keeps only rows that are proven
intact. Lost ticks are restored from the raw responses in .oddslake/raw, or fetched again: exit 0 if all are restored, 4 if
some remain lost. Past order books, markets and conflicts cannot be fetched again. --from-url needs a key:
ODDSLAKE_FROM_API_KEY.

With s3://BUCKET/PREFIX the objects of the generation there are checked, without a download if the server keeps their SHA-256.
--repair then uploads damaged and missing ones again from intact files of the archive at --output; what it does not have is lost
(exit 6).`;

const examples = `
  oddslake verify --output lake
  oddslake verify --output lake --repair
  oddslake verify s3://lakes/markets
  ODDSLAKE_FROM_API_KEY_FILE=key.txt oddslake verify --output lake --repair --from-url https://mirror.example`;

/** Formats a repair for its summary: the result in the table, and below it each damaged file and each lost window. */
export function formatRepair({ repaired, lost, files, bytes, generation }: RepairReport): SummaryDetails {
  const checkedText = `${formatCount(files, 'file')}, ${formatBytes(bytes)}`;
  if (repaired.length === 0)
    return { row: ['repaired', [`nothing: no damage found in ${checkedText}`]], format: () => [] };
  const outcomes = [...Map.groupBy(repaired, ({ outcome }) => outcome)].map(
    ([outcome, { length }]) => `${formatNumber(length)} ${outcome}`,
  );
  const ticks = lost.reduce((sum, window) => sum + window.ticks, 0);
  const lines = [
    'The damaged files:',
    ...limitLines(repaired.map(formatRepairedFile)),
    ...(lost.length === 0
      ? []
      : [
          `${formatCount(ticks, 'tick')} of ${formatCount(lost.length, 'window')} in them could not be kept; those brought back are in the line "restored":`,
        ]),
    ...limitLines(
      lost.map(
        (w) =>
          `  ${keepTogether(escapeControls(w.symbol))}  ${formatIsoUtc(w.from)} … ${formatIsoUtc(w.to)}  ${keepTogether(formatCount(w.ticks, 'tick'))}`,
      ),
    ),
  ];
  return {
    row: [
      'repaired',
      [
        `${formatCount(repaired.length, 'file')}: ${outcomes.join(', ')}`,
        `of ${checkedText} (generation ${formatNumber(generation)})`,
      ],
    ],
    format: ({ width }: TerminalStyle) =>
      lines.flatMap((line) =>
        wrapText(line.trimStart(), width, line.startsWith(' ') ? '  ' : '', line.startsWith(' ') ? '      ' : ''),
      ),
  };
}

const linesMax = 50;

const limitLines = (lines: readonly string[]): string[] =>
  lines.length <= linesMax
    ? [...lines]
    : [...lines.slice(0, linesMax), `  … and ${formatNumber(lines.length - linesMax)} more`];

function formatRepairedFile({
  path,
  kind,
  outcome,
  moved_to: movedTo,
  rows,
  rows_lost: rowsLost,
}: RepairedFile): string {
  const keptText =
    rows !== null && rowsLost !== null && rowsLost > 0
      ? `, ${formatNumber(rows - rowsLost)} of ${formatCount(rows, 'row')} kept`
      : '';
  const movedText = movedTo === null ? '' : `; the damaged file was moved to ${keepTogether(escapeControls(movedTo))}`;
  return `  ${keepTogether(escapeControls(path))}: ${kind}; ${outcome}${keptText}${movedText}`;
}
