import { askedEnds, fromOption, knownSymbols, symbolOption, toOption } from '../asked.ts';
import { withExamples, withNotes } from '../help.ts';
import { type CommonFlags, idleWhereRead, withArchive, withCommonFlags } from '../session.ts';
import type { Shell } from '../shell.ts';

interface GapsFlags extends CommonFlags {
  readonly from?: string;
  readonly to?: string;
  readonly symbol: readonly string[];
}

/** `gaps`: what no successful request has covered. */
export function addGaps(shell: Shell): void {
  const command = shell.program
    .command('gaps')
    .description("windows inside the asked range and the symbol's life that no successful request has covered")
    .addOption(fromOption(' (default: the first moment covered or with a tick)'))
    .addOption(toOption(' (default: the last one)'))
    .addOption(symbolOption());
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command, idleWhereRead).action((flags: GapsFlags) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const [{ listGaps }, { gapsText }] = await Promise.all([
        import('../../reading/gaps.ts'),
        import('../gaps-text.ts'),
      ]);
      const asked = { ...askedEnds(flags), symbols: knownSymbols(archive, flags.symbol) };
      const gaps = listGaps(archive, asked, context.clock.nowMs());
      process.stdout.write(flags.json === true ? `${JSON.stringify(gaps)}\n` : gapsText(gaps));
    }),
  );
}

const notes = `
A window that coverage names and that holds no tick is quiet, and no gap. Those with the reason lost had ticks once.`;

const examples = `
  oddslake gaps --output lake
  oddslake gaps --output lake --from 2026-11-01 --to 2026-11-08 --json | jq .windows`;
