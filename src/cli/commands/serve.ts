import type { Command } from 'commander';
import type { Archive } from '../../archive/archive.ts';
import { UsageError } from '../../base/errors.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { putPoolsInBackground } from '../../base/worker-threads.ts';
import { completeCommands } from '../../context/command-name.ts';
import type { Context } from '../../context/context.ts';
import type { RunningService } from '../../server/run-service.ts';
import { toShortPath } from '../../settings/environment.ts';
import type { Settings } from '../../settings/settings.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  type ListenFlags,
  openReadableArchive,
  printResult,
  withCommonFlags,
  withContext,
} from '../command-context.ts';
import { withHelp } from '../help.ts';
import { requireOwner } from '../require-owner.ts';

/** `serve`: runs the HTTP service until it is stopped. */
export function addServe(command: Command, shell: CliContext): void {
  command
    .option('--port <n>', 'TCP port, 0 for a free one (default: service.port)')
    .option('--host <address>', 'address to listen on (default: service.host)');
  withHelp(command, notes, examples);
  withCommonFlags(command, flagsUnusedByReaders, true).action((flags: CommonFlags & ListenFlags) =>
    withContext(flags, shell.version, false, (context) => {
      const { bucketUrl } = context.settings.archive;
      const { live, databaseUrl } = context.settings.service;
      if (bucketUrl !== null) requireReadOnlyService(bucketUrl, context.settings);
      else if (live.enabled || databaseUrl === null) requireOwner(context.settings);
      return openReadableArchive(context, async (archive) => {
        if (bucketUrl !== null) await prepareBucketService(context, archive);
        const { startService } = await import('../../server/run-service.ts');
        putPoolsInBackground();
        const service = await startService(context, archive);
        const { url, docs } = service;
        const { name } = archive;
        context.log.info({ url, archive: name }, 'service listening');
        printResult(flags, { url, docs, archive: name }, () =>
          // Only a person gets the link: a file or a log would keep the one-time key.
          formatServing(
            service,
            name,
            formatKeyCommand(context.settings, name),
            process.stdout.isTTY && !service.isPublic,
          ),
        );
        if (!context.signal.aborted) await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
        await service.stop();
        context.log.info({}, 'service stopped');
      });
    }),
  );
}

/** @throws UsageError if the service would need an archive that it can write to */
function requireReadOnlyService(bucketUrl: string, { service }: Settings): void {
  if (service.live.enabled)
    throw new UsageError(
      `service.live.enabled is on, and live reads write to the archive, but ${bucketUrl} is in object storage. Turn it off, or serve the archive that you collect.`,
    );
  if (service.databaseUrl === null)
    throw new UsageError(
      `The keys of the service need a database, and ${bucketUrl} has no place for one. Set service.database_url, e.g. --set service.database_url=sqlite:service.sqlite`,
    );
}

/** Fetches the whole generation: the service answers from any file of it. */
async function prepareBucketService({ log }: Context, archive: Archive): Promise<void> {
  const [{ listManifestFiles }, { setLeaseId }] = await Promise.all([
    import('../../archive/format/manifest.ts'),
    import('../../server/jobs/archive-lease.ts'),
  ]);
  const manifest = archive.readManifest();
  await archive.fetchFiles?.(listManifestFiles(manifest));
  setLeaseId(archive, archive.name);
  const { generation } = manifest;
  log.info({ archive: archive.name, generation }, 'serving this one generation; restart to serve a later one');
}

/** The command that creates a key, from the same folder and without the environment of this process. */
function formatKeyCommand({ configFile, archive }: Settings, name: string): string {
  if (archive.bucketUrl !== null)
    return `${completeCommands('oddslake keys create --name NAME')} with the same service.database_url`;
  const isNamed = configFile === null || archive.outputFlagged;
  const config = configFile === null ? '' : ` --config ${quoteShellWord(toShortPath(configFile))}`;
  return completeCommands(
    `oddslake keys create --name NAME${config}${isNamed ? ` --output ${quoteShellWord(name)}` : ''}`,
  );
}

const formatServing = (
  { url, docs, isPublic, createSignInLink }: RunningService,
  name: string,
  keyCommand: string,
  hasLink: boolean,
): string => `serving ${name}
  address        ${url}${isPublic ? '' : '   the catalogue asks for a key'}
${isPublic ? '  catalogue      open the address in a browser; no key is needed\n' : ''}${hasLink ? `  sign in        ${createSignInLink()}\n                 once, within 15 minutes\n` : ''}  documentation  ${docs}
  create a key   ${keyCommand}
  stop           Ctrl-C
`;

const notes = `
On a loopback address the catalogue page needs no key (service.public_catalogue). Otherwise a link is printed on a terminal that
signs in to the page once, for 12 hours.
An archive in object storage is downloaded at the start, and served as it is then: later pushes are seen after a restart. It needs
service.database_url for the keys, and live reads must be off.`;

const examples = `
  oddslake serve --output lake
  oddslake serve --output lake --host 0.0.0.0 --port 80
  oddslake serve --archive s3://lakes/markets --set service.database_url=sqlite:service.sqlite`;
