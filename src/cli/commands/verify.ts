import { exitCodes } from '../../core/errors.ts';
import { many, size } from '../amounts.ts';
import { type CommonFlags, withArchive, withCommonFlags } from '../session.ts';
import type { Shell } from '../shell.ts';

/** `verify`: re-reads every published file. */
export function addVerify(shell: Shell): void {
  const command = shell.program
    .command('verify')
    .description('re-read and re-hash every published file against the manifest; exit 6 where one differs');
  withCommonFlags(command, ['--wait', '--strict']).action((flags: CommonFlags) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const { verify } = await import('../../archive/verify.ts');
      const display = await context.startDisplay('verify', 1, 'files');
      try {
        const onProgress = (done: number, total: number): void => display.update({ done, total });
        const found = await verify(archive, null, onProgress, context.signal);
        display.stop();
        if (flags.json === true) process.stdout.write(`${JSON.stringify(found)}\n`);
        else {
          for (const { path, what } of found.findings) process.stdout.write(`${path}: ${what}\n`);
          const verdict =
            found.findings.length === 0 ? 'all as published' : `${found.findings.length} not as published`;
          process.stdout.write(
            `${many(found.files, 'file')}, ${size(found.bytes)}, generation ${found.generation}: ${verdict}\n`,
          );
        }
        shell.exit(found.findings.length === 0 ? exitCodes.done : exitCodes.damaged);
      } finally {
        display.stop();
      }
    }),
  );
}
