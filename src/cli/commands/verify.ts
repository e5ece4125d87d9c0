import type { VerifyFinding, VerifyResult } from '../../archive/integrity/verify.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { exitCodes, UsageError } from '../../base/errors.ts';
import { formatBytes, formatCount } from '../../base/format-quantity.ts';
import type { RepairFlags, VerifyFlags } from '../../collector/run/job.ts';
import { type CliContext, type CommonFlags, withCommonFlags, withContext } from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { reportSummary } from '../print-summary.ts';
import { runJobCommand } from '../run-job.ts';

interface VerifyOptions extends CommonFlags {
  readonly repair?: boolean;
  readonly fromUrl?: string;
}

/** `verify`: re-reads every published file, and mends what is damaged where it is told to. */
export function addVerify(shell: CliContext): void {
  const command = shell.program
    .command('verify')
    .description('check every published file against the SHA-256 in the manifest; exit 6 if one differs')
    .option('--repair', 'move damaged files aside, keep their intact row groups, and fetch the lost rows again')
    .option('--from-url <url>', 'with --repair: fetch lost rows from this oddslake service instead of the upstream');
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: VerifyOptions) =>
    flags.repair === true ? runRepair(shell, flags) : runVerify(shell, flags),
  );
}

async function runRepair(shell: CliContext, flags: VerifyOptions): Promise<void> {
  const { formatRepair } = await import('../format-archive.ts');
  const parse = (): RepairFlags => ({
    fromUrl: flags.fromUrl ?? null,
    onRepaired: (repaired) =>
      process.stdout.write(flags.json === true ? `${JSON.stringify({ repaired })}\n` : formatRepair(repaired)),
  });
  await runJobCommand(shell, 'repair', flags, shell.jobs.repair, parse);
}

async function runVerify(shell: CliContext, flags: VerifyOptions): Promise<void> {
  if (flags.fromUrl !== undefined) throw new UsageError('--from-url needs --repair: without it nothing is fetched.');
  await withContext(flags, shell.version, false, async (context) => {
    const job = await shell.jobs.verify();
    let isShown = false;
    const show: VerifyFlags['onVerified'] = (found, archive, runId) => {
      printVerified(found, archive, runId, flags.json === true);
      isShown = true;
    };
    const summary = await job.run(context, { onVerified: show });
    if (!isShown || (summary.error !== null && summary.exit_code !== exitCodes.damaged))
      reportSummary(shell, flags, summary, '');
    else shell.setExitCode(summary.exit_code);
  });
}

function printVerified(found: VerifyResult, archive: Archive, runId: string, asJson: boolean): void {
  if (asJson) process.stdout.write(`${JSON.stringify({ run_id: runId, ...found })}\n`);
  else {
    for (const { path, kind } of found.findings)
      process.stdout.write(`${path}: ${kind}${describeManifestEntry(path, kind, archive)}\n`);
    const verdict = found.findings.length === 0 ? 'all as published' : `${found.findings.length} not as published`;
    process.stdout.write(
      `${formatCount(found.files, 'file')}, ${formatBytes(found.bytes)}, generation ${found.generation}: ${verdict}\n`,
    );
    if (found.findings.length > 0) process.stderr.write('To mend it: oddslake verify --repair\n');
  }
  if (found.state !== null) process.stderr.write(`oddslake: ${found.state}\n`);
}

/** What a manifest says that the last publish did not write; the files were looked at by it all the same. */
const describeManifestEntry = (path: string, what: VerifyFinding['kind'], { state, readManifest }: Archive): string =>
  path === 'manifest.json' && what === 'checksum mismatch'
    ? ` from the one that the last publish wrote, generation ${state.generation()}, and calls itself generation ${readManifest().generation}`
    : '';

const notes = `
--repair moves damaged files to .oddslake/damaged, where they stay until you remove them, and keeps only rows that are proven
intact. Lost ticks are restored from the raw responses in .oddslake/raw, or fetched again: exit 0 if all are restored, 4 if
some stay lost. Past order books, markets and conflicts cannot be fetched. --from-url needs a key: ODDSLAKE_FROM_API_KEY.`;

const examples = `
  oddslake verify --output lake
  oddslake verify --output lake --repair
  ODDSLAKE_FROM_API_KEY_FILE=key.txt oddslake verify --output lake --repair --from-url https://mirror.example`;
