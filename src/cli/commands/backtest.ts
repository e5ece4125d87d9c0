import { UsageError } from '../../core/errors.ts';
import { type CommonFlags, flagsUnusedByReaders, withArchive, withCommonFlags } from '../command-context.ts';
import type { CliContext } from '../command-types.ts';
import { withExamples, withNotes } from '../help.ts';
import { createIntegerParser } from '../options.ts';
import { getTerminalStyle } from '../terminal-style.ts';
import { addBacktestRun } from './backtest-run.ts';

interface ListFlags extends CommonFlags {
  readonly rows: number;
}

interface ShowFlags extends CommonFlags {
  readonly out?: string;
}

const rowsMax = 1000;

/** `backtest run`, `backtest list`, `backtest show`: strategies on the archive's ticks. */
export function addBacktest(shell: CliContext): void {
  const { version } = shell;
  const backtest = shell.program
    .command('backtest')
    .description('run trading strategies on the ticks of the archive, without look-ahead: run, list, show');
  addBacktestRun(shell, backtest);

  const list = backtest
    .command('list')
    .description("the backtests that are kept, the newest first, those of the service's users among them")
    .option('--rows <n>', 'maximum number of rows', createIntegerParser(1, rowsMax), 50);
  withCommonFlags(list, flagsUnusedByReaders).action((flags: ListFlags) =>
    withArchive(flags, version, async (archive, context) => {
      const [{ listSavedBacktests }, { toBacktestListEntry, formatBacktestList }] = await Promise.all([
        import('../../app/backtests.ts'),
        import('../format-backtest-list.ts'),
      ]);
      const { rows, more } = await listSavedBacktests(context, archive, flags.rows);
      const lines = rows.map(toBacktestListEntry);
      const text = JSON.stringify({ backtests: lines, count: lines.length, more });
      process.stdout.write(
        flags.json === true ? `${text}\n` : formatBacktestList(lines, more, getTerminalStyle(process.stdout)),
      );
    }),
  );

  const show = backtest
    .command('show')
    .description('show the result of a saved backtest')
    .argument('<id>', 'ID as shown by oddslake backtest list')
    .option('--out <file>', 'write an HTML page; replaces an existing file atomically');
  withNotes(show, showNotes);
  withExamples(show, showExamples);
  withCommonFlags(show, flagsUnusedByReaders).action((id: string, flags: ShowFlags) =>
    withArchive(flags, version, async (archive, context) => {
      const [{ getSavedBacktest }, { requirePageTarget, printBacktest, writeBacktestPage }] = await Promise.all([
        import('../../app/backtests.ts'),
        import('../print-backtest.ts'),
      ]);
      const file = flags.out === undefined ? null : requirePageTarget(archive, flags.out);
      const row = await getSavedBacktest(context, archive, id);
      if (row.result === null) throw new UsageError(createNoResultError(row));
      const result = JSON.parse(row.result);
      const page = file === null ? null : await writeBacktestPage(archive, context, file, result);
      printBacktest({ result, id, page }, flags, { isNew: false });
    }),
  );
}

const createNoResultError = (row: {
  readonly id: string;
  readonly state: string;
  readonly error: string | null;
}): string => `The backtest ${row.id} has no result: it is ${row.state}${row.error === null ? '' : ` (${row.error})`}.`;

const showNotes = `
--json prints the response of POST /api/v1/research/backtest, with the file written by --out under "page".`;

const showExamples = `
  oddslake backtest show mwrt5zeezgvry21yze --out page.html`;
