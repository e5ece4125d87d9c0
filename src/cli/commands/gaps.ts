import { fromOption, symbolOption, toOption } from '../asked.ts';
import type { GapsAsked } from '../read-gaps.ts';
import { type CommonFlags, withCommonFlags, withContext } from '../session.ts';
import type { Shell } from '../shell.ts';

/** `gaps`: what no successful request has covered. */
export function addGaps(shell: Shell): void {
  const command = shell.program
    .command('gaps')
    .description("windows inside the asked range and the symbol's life that no successful request has covered")
    .addOption(fromOption(' (default: the first covered moment)'))
    .addOption(toOption(' (default: the last covered moment)'))
    .addOption(symbolOption());
  withCommonFlags(command).action((flags: CommonFlags & GapsAsked) =>
    withContext(flags, shell.version, false, async (context) => {
      const [{ openConfiguredArchive }, { listGaps, gapsText }] = await Promise.all([
        import('../../app/run.ts'),
        import('../read-gaps.ts'),
      ]);
      const archive = openConfiguredArchive(context, false);
      try {
        const gaps = listGaps(archive, flags, context.clock.nowMs());
        process.stdout.write(flags.json === true ? `${JSON.stringify(gaps)}\n` : gapsText(gaps));
      } finally {
        archive.close();
      }
    }),
  );
}
