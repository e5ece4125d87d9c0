import type { Context } from '../../app/context.ts';
import type { RepairFlags } from '../../app/job.ts';
import type { Archive } from '../../archive/archive.ts';
import type { Finding, Verified } from '../../archive/verify/verify.ts';
import { DamageError, UsageError } from '../../core/errors.ts';
import { many, size } from '../amounts.ts';
import { withExamples, withNotes } from '../help.ts';
import { notStarted, runAndTell } from '../run-job.ts';
import { type CommonFlags, withCommonFlags, withContext } from '../session.ts';
import type { Shell } from '../shell.ts';

interface VerifyOptions extends CommonFlags {
  readonly repair?: boolean;
  readonly fromUrl?: string;
}

/** `verify`: re-reads every published file, and mends what is damaged where it is told to. */
export function addVerify(shell: Shell): void {
  const command = shell.program
    .command('verify')
    .description('re-read and re-hash every published file against the manifest; exit 6 where one differs')
    .option('--repair', 'set damaged files aside, keep what is provably intact, fetch the rest again')
    .option('--from-url <url>', 'with --repair: ask the oddslake that is served there, not the upstream');
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: VerifyOptions) =>
    flags.repair === true ? repairAndTell(shell, flags) : verifyAndTell(shell, flags),
  );
}

async function repairAndTell(shell: Shell, flags: VerifyOptions): Promise<void> {
  const { repairText } = await import('../repair-text.ts');
  const parse = (): RepairFlags => ({
    fromUrl: flags.fromUrl ?? null,
    show: (repaired) =>
      process.stdout.write(flags.json === true ? `${JSON.stringify({ repaired })}\n` : repairText(repaired)),
  });
  await runAndTell(shell, 'repair', flags, shell.jobs.repair, parse);
}

async function verifyAndTell(shell: Shell, flags: VerifyOptions): Promise<void> {
  if (flags.fromUrl !== undefined) throw new UsageError('--from-url needs --repair: without it nothing is fetched.');
  await withContext(flags, shell.version, false, async (context) => {
    const startedAt = context.clock.nowMs();
    const [{ afterRun }, { openConfiguredArchive }] = await Promise.all([
      import('../../app/afterwards/after-run.ts'),
      import('../../app/configured.ts'),
    ]);
    let thrown: unknown;
    let failed = true;
    try {
      const archive = openConfiguredArchive(context, false);
      try {
        thrown = damageOf(await lookAndTell(archive, flags, context));
      } finally {
        archive.close();
      }
      failed = false;
    } catch (error) {
      thrown = error;
    }
    const summary = notStarted('verify', shell.version, startedAt, thrown, context.clock.nowMs());
    await afterRun(context, summary);
    if (failed) throw thrown;
    shell.exit(summary.exit_code);
  });
}

/** Looks at every file, and prints what was found. */
async function lookAndTell(archive: Archive, flags: VerifyOptions, context: Context): Promise<Verified> {
  const { verify } = await import('../../archive/verify/verify.ts');
  const display = await context.startDisplay('verify', 1, 'files');
  try {
    const onProgress = (done: number, total: number): void => display.update({ done, total });
    const found = await verify(archive, null, onProgress, context.signal);
    display.stop();
    if (flags.json === true) process.stdout.write(`${JSON.stringify(found)}\n`);
    else {
      for (const { path, what } of found.findings)
        process.stdout.write(`${path}: ${what}${ofManifest(path, what, archive)}\n`);
      const verdict = found.findings.length === 0 ? 'all as published' : `${found.findings.length} not as published`;
      process.stdout.write(
        `${many(found.files, 'file')}, ${size(found.bytes)}, generation ${found.generation}: ${verdict}\n`,
      );
      if (found.findings.length > 0) process.stderr.write('To mend it: oddslake verify --repair\n');
    }
    if (found.state !== null) process.stderr.write(`oddslake: ${found.state}\n`);
    return found;
  } finally {
    display.stop();
  }
}

/** What others are told of what was found; undefined where all is as it was published. */
function damageOf({ findings, files, state }: Verified): DamageError | undefined {
  const [first] = findings;
  const said = [
    ...(first === undefined
      ? []
      : [`${findings.length} of ${many(files, 'file')} not as published, ${first.path} (${first.what}) first.`]),
    ...(state === null ? [] : [state]),
    ...(first === undefined ? [] : ['To mend it: oddslake verify --repair']),
  ];
  return said.length === 0 ? undefined : new DamageError(said.join(' '));
}

/** What a manifest says that the last publish did not write; the files were looked at by it all the same. */
const ofManifest = (path: string, what: Finding['what'], { state, manifest }: Archive): string =>
  path === 'manifest.json' && what === 'differs'
    ? ` from the one that the last publish wrote, generation ${state.generation()}, and calls itself generation ${manifest().generation}`
    : '';

const notes = `
--repair keeps what was there under .oddslake/damaged until you remove it, and leaves nothing that is not provably as it
was published. What is lost of ticks is taken from the answers that .oddslake/raw still has, and the rest is asked for
again: exit 0 where all is back, 4 where something stays lost. Of order books, markets and conflicts the past cannot be asked for. --from-url needs a key:
ODDSLAKE_FROM_API_KEY.`;

const examples = `
  oddslake verify --output lake
  oddslake verify --output lake --repair
  ODDSLAKE_FROM_API_KEY_FILE=key.txt oddslake verify --output lake --repair --from-url https://mirror.example`;
