import { fromOption, symbolOption, toOption } from '../asked.ts';
import type { GapsAsked } from '../read-gaps.ts';
import { type CommonFlags, idleWhereRead, withArchive, withCommonFlags } from '../session.ts';
import type { Shell } from '../shell.ts';

/** `gaps`: what no successful request has covered. */
export function addGaps(shell: Shell): void {
  const command = shell.program
    .command('gaps')
    .description("windows inside the asked range and the symbol's life that no successful request has covered")
    .addOption(fromOption(' (default: the first moment covered or with a tick)'))
    .addOption(toOption(' (default: the last one)'))
    .addOption(symbolOption());
  withCommonFlags(command, idleWhereRead).action((flags: CommonFlags & GapsAsked) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const { listGaps, gapsText } = await import('../read-gaps.ts');
      const gaps = listGaps(archive, flags, context.clock.nowMs());
      process.stdout.write(flags.json === true ? `${JSON.stringify(gaps)}\n` : gapsText(gaps));
    }),
  );
}
