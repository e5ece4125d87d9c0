import { type Command, Option } from 'commander';
import type { Archive } from '../../archive/archive.ts';
import { exitCodes } from '../../base/errors.ts';
import { formatBytes, formatCount } from '../../base/format-quantity.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import type { ObjectStore } from '../../bucket/object-store.ts';
import type { PushResult } from '../../bucket/push.ts';
import type { BucketVerifyResult } from '../../bucket/verify-bucket.ts';
import { pullToFolder, pushByUrl, withFilesDisplay, withObjectStore } from '../../collector/steps/bucket-access.ts';
import { completeCommands } from '../../context/command-name.ts';
import type { Context } from '../../context/context.ts';
import {
  type CliContext,
  type CommonFlags,
  printResult,
  withCommonFlags,
  withContext,
  withLocalArchive,
  withOwnArchive,
} from '../command-context.ts';
import { withHelp } from '../help.ts';
import { requireOwner } from '../require-owner.ts';

interface PushFlags extends CommonFlags {
  readonly forceRestore?: boolean;
}

/** `push`: uploads the published generation to a bucket. */
export function addPush(command: Command, shell: CliContext): void {
  command
    .argument('[url]', 's3://BUCKET/PREFIX (default: the setting bucket.url)')
    .addOption(
      new Option(
        '--force-restore',
        'push on top of a newer or diverged generation, after the archive was restored from a backup',
      ),
    );
  withHelp(command, pushNotes, pushExamples);
  withCommonFlags(command, ['--wait']).action((url: string | undefined, flags: PushFlags) =>
    withOwnArchive(flags, shell.version, async (archive, context) => {
      const result = await pushByUrl(context, archive, url, flags.forceRestore === true);
      if (flags.quiet !== true)
        for (const warning of result.warnings)
          process.stderr.write(`oddslake: warning: ${completeCommands(warning)}\n`);
      const exitCode = flags.strict === true && result.warnings.length > 0 ? exitCodes.incomplete : exitCodes.done;
      shell.setExitCode(exitCode);
      printResult(flags, { version: shell.version, job: 'push', exit_code: exitCode, ...result }, () =>
        formatPush(result),
      );
    }),
  );
}

function formatPush({ url, outcome, generation, files, uploaded, reused, removed, requests }: PushResult): string {
  if (outcome === 'unchanged') return `${url}: already has generation ${generation}\n`;
  const parts = [
    `${formatCount(uploaded.files, 'file')} of ${files} uploaded, ${formatBytes(uploaded.bytes)}`,
    ...(reused > 0 ? [`${reused} left by an earlier push`] : []),
    ...(removed > 0 ? [`${formatCount(removed, 'old object')} removed`] : []),
    `${requests.reads} reads and ${requests.writes} writes`,
  ];
  return `${url}: generation ${generation}, ${parts.join(', ')}\n`;
}

const pushNotes = `
Files become objects whose names contain their hash and which never change; one conditional write then swaps manifest.json. So
a reader of the manifest sees one generation whole, whatever happens to a push, and the next push continues where it ended. Only
files that changed are uploaded. Do not read data/ with a pattern: read the keys that the manifest lists, or views.sql.

Credentials, region and endpoint come from the environment (AWS_PROFILE, AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL) or from
~/.aws, as for every AWS tool. No setting holds a key. docs/BUCKET.md has the policies that a writer and a reader need.

Exit codes: 2 if the bucket has another archive or a newer generation, or the server lacks conditional writes; 3 if the credential
is refused; 5 if other pushes kept coming first, or another one of this archive is still running; 6 if a local file or an object is
damaged; 7 if the server cannot be reached or the push took longer than bucket.push_minutes_max.`;

const pushExamples = `
  oddslake push s3://lakes/markets
  AWS_ENDPOINT_URL=https://objects.example AWS_REGION=us-east-1 oddslake push s3://lakes/markets --set bucket.path_style=true
  oddslake push --config oddslake.yaml --json      # bucket.url in the config`;

/** `pull`: makes a local archive of a generation in a bucket. */
export function addPull(command: Command, shell: CliContext): void {
  command
    .argument('<url>', 's3://BUCKET/PREFIX')
    .argument('<dir>', 'a new or empty folder, or one that was pulled before');
  withHelp(command, pullNotes, pullExamples);
  withCommonFlags(command, ['--output', '--strict']).action((url: string, folder: string, flags: CommonFlags) =>
    withContext(flags, shell.version, false, async (context) => {
      requireOwner(context.settings, folder);
      const result = await withObjectStore(context, url, (store) => pullToFolder(context, store, folder));
      const { outcome, generation, downloaded, files } = result;
      printResult(flags, { version: shell.version, job: 'pull', exit_code: exitCodes.done, ...result }, () =>
        outcome === 'unchanged'
          ? `${result.folder}: already has generation ${generation}\n`
          : `${result.folder}: generation ${generation}, ${formatCount(downloaded.files, 'file')} of ${files} downloaded, ${formatBytes(downloaded.bytes)}\n`,
      );
    }),
  );
}

const pullNotes = `
The folder becomes a complete archive: sql, export, verify and serve read it with --output DIR. Every file is checked against its
hash. Repeated pulls download only the files that changed, and replace files in one step, as a publish does, so readers may use
the folder at any time. A folder with data that is not known to be in the bucket is left alone (exit 2).`;

const pullExamples = `
  oddslake pull s3://lakes/markets lake
  oddslake verify --output lake`;

interface BucketVerifyFlags extends CommonFlags {
  readonly repair?: boolean;
  readonly download?: boolean;
}

/** `verify s3://…`: compares the objects of the current generation with the manifest there. */
export const verifyUrl = (shell: CliContext, url: string, flags: BucketVerifyFlags): Promise<void> =>
  withContext(flags, shell.version, false, async (context) => {
    const result = await withObjectStore(context, url, (store) => runBucketVerify(context, store, flags));
    const isSound = result.findings.every(({ repair }) => repair === 'uploaded');
    const exitCode = isSound ? exitCodes.done : exitCodes.damaged;
    shell.setExitCode(exitCode);
    printResult(flags, { version: shell.version, job: 'verify', exit_code: exitCode, ...result }, () =>
      formatBucketVerify(result),
    );
    if (!isSound && flags.repair !== true && flags.quiet !== true)
      process.stderr.write(
        completeCommands(
          `To upload them again from an intact archive: oddslake verify ${quoteShellWord(result.url)} --repair\n`,
        ),
      );
  });

async function runBucketVerify(
  context: Context,
  store: ObjectStore,
  flags: BucketVerifyFlags,
): Promise<BucketVerifyResult> {
  const { verifyBucket } = await import('../../bucket/verify-bucket.ts');
  const verify = (repairsFrom: Archive | null): Promise<BucketVerifyResult> =>
    withFilesDisplay(context, 'verify', (onProgress) =>
      verifyBucket(store, { downloads: flags.download === true, repairsFrom, onProgress }),
    );
  return flags.repair === true ? await withLocalArchive(context, verify) : await verify(null);
}

function formatBucketVerify({ url, generation, files, bytes, weak, findings }: BucketVerifyResult): string {
  const repairTexts = { uploaded: ': uploaded again', lost: ': lost, because the archive has no intact file of it' };
  const lines = findings.map(
    ({ key, kind, repair }) => `${key}: ${kind}${repair === undefined ? '' : repairTexts[repair]}\n`,
  );
  const weakText =
    weak === 0
      ? ''
      : `, ${weak} by length and recorded hash only, because the server keeps no SHA-256 (--download checks all)`;
  const resultText = findings.length === 0 ? 'no damage found' : formatCount(findings.length, 'problem');
  const total = `${url}: ${formatCount(files, 'object')}, ${formatBytes(bytes)}, generation ${generation}${weakText}: ${resultText}\n`;
  return [...lines, total].join('');
}
