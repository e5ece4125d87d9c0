import { Option } from 'commander';
import { wholeNumber } from '../asked.ts';
import { withExamples } from '../help.ts';
import { type CommonFlags, idleWhereRead, withArchive, withCommonFlags } from '../session.ts';
import type { Shell } from '../shell.ts';
import { styleOf } from '../style.ts';

interface SymbolsFlags extends CommonFlags {
  readonly rows: number;
}

/** `symbols`: what is known of each, found by words. */
export function addSymbols(shell: Shell): void {
  const command = shell.program
    .command('symbols')
    .description('the known symbols, live ones first, found by ticker, question, category, market id or venue')
    .argument('[text...]', 'words that must all stand somewhere, in whatever case (default: every symbol)')
    .addOption(
      new Option('--rows <n>', 'most rows of the table; --json has all').argParser(wholeNumber(1)).default(50),
    );
  withExamples(command, examples);
  withCommonFlags(command, idleWhereRead).action((text: readonly string[], flags: SymbolsFlags) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const [{ listSymbols }, { symbolsText }] = await Promise.all([
        import('../../reading/symbols.ts'),
        import('../symbols-text.ts'),
      ]);
      const list = listSymbols(archive, text.join(' '), context.clock.nowMs());
      process.stdout.write(
        flags.json === true ? `${JSON.stringify(list)}\n` : symbolsText(list, flags.rows, styleOf(process.stdout)),
      );
    }),
  );
}

const examples = `
  oddslake symbols                     every symbol known
  oddslake symbols rain sydney         those with both words in ticker, question, category, market id or venue
  oddslake symbols --json kxbtc | jq -r '.symbols[] | select(.state == "active") | .symbol'`;
