import type { RunningService } from '../../server/serve.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  withArchive,
  withCommonFlags,
} from '../command-context.ts';
import { withExamples } from '../help.ts';

/** `serve`: runs the HTTP service until it is stopped. */
export function addServe(shell: CliContext): void {
  const command = shell.program
    .command('serve')
    .description('serve the archive over HTTP until stopped; clients need a key from oddslake keys create');
  withExamples(command, examples);
  withCommonFlags(command, flagsUnusedByReaders).action((flags: CommonFlags) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const { startService } = await import('../../server/serve.ts');
      const service = await startService(context, archive);
      const { url, docs } = service;
      const { root } = archive.layout;
      context.log.info({ url, archive: root }, 'service listening');
      printResult(flags, { url, docs, archive: root }, () => formatServing(service, root));
      if (!context.signal.aborted) await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
      await service.stop();
      context.log.info({}, 'service stopped');
    }),
  );
}

const formatServing = ({ url, docs }: RunningService, root: string): string => `serving ${root}
  address        ${url}
  documentation  ${docs}
  create a key   oddslake keys create --name NAME --output ${/^[\w./-]+$/.test(root) ? root : JSON.stringify(root)}
  stop           Ctrl-C
`;

const examples = `
  oddslake serve --output lake
  oddslake serve --output lake --set service.host=0.0.0.0 --set service.port=80`;
