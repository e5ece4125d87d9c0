import { UsageError } from '../../core/errors.ts';
import { type CommonFlags, idleWhereRead, withArchive, withCommonFlags } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { withExamples, withNotes } from '../help.ts';
import { wholeNumber } from '../options.ts';
import { styleOf } from '../terminal-style.ts';
import { addBacktestRun } from './backtest-run.ts';

interface ListFlags extends CommonFlags {
  readonly rows: number;
}

interface ShowFlags extends CommonFlags {
  readonly out?: string;
}

const rowsMax = 1000;

/** `backtest run`, `backtest list`, `backtest show`: strategies on the archive's ticks. */
export function addBacktest(shell: Shell): void {
  const { version } = shell;
  const backtest = shell.program
    .command('backtest')
    .description('run trading strategies on the ticks of the archive, without look-ahead: run, list, show');
  addBacktestRun(shell, backtest);

  const list = backtest
    .command('list')
    .description("the backtests that are kept, the newest first, those of the service's users among them")
    .option('--rows <n>', 'maximum number of rows', wholeNumber(1, rowsMax), 50);
  withCommonFlags(list, idleWhereRead).action((flags: ListFlags) =>
    withArchive(flags, version, async (archive, context) => {
      const [{ listKept }, { backtestLine, backtestsText }] = await Promise.all([
        import('../../app/backtests.ts'),
        import('../format-backtest-list.ts'),
      ]);
      const { rows, more } = await listKept(context, archive, flags.rows);
      const lines = rows.map(backtestLine);
      const text = JSON.stringify({ backtests: lines, count: lines.length, more });
      process.stdout.write(flags.json === true ? `${text}\n` : backtestsText(lines, more, styleOf(process.stdout)));
    }),
  );

  const show = backtest
    .command('show')
    .description('show the result of a saved backtest')
    .argument('<id>', 'ID as shown by oddslake backtest list')
    .option('--out <file>', 'write an HTML page; replaces an existing file atomically');
  withNotes(show, showNotes);
  withExamples(show, showExamples);
  withCommonFlags(show, idleWhereRead).action((id: string, flags: ShowFlags) =>
    withArchive(flags, version, async (archive, context) => {
      const [{ oneKept }, { pageTarget, tellBacktest, writeBacktestPage }] = await Promise.all([
        import('../../app/backtests.ts'),
        import('../print-backtest.ts'),
      ]);
      const file = flags.out === undefined ? null : pageTarget(archive, flags.out);
      const row = await oneKept(context, archive, id);
      if (row.result === null) throw new UsageError(withoutResult(row));
      const result = JSON.parse(row.result);
      const page = file === null ? null : await writeBacktestPage(archive, context, file, result);
      tellBacktest({ result, id, page }, flags, { isNew: false });
    }),
  );
}

const withoutResult = (row: { readonly id: string; readonly state: string; readonly error: string | null }): string =>
  `The backtest ${row.id} has no result: it is ${row.state}${row.error === null ? '' : ` (${row.error})`}.`;

const showNotes = `
--json prints the response of POST /api/v1/research/backtest, with the file written by --out under "page".`;

const showExamples = `
  oddslake backtest show mwrt5zeezgvry21yze --out page.html`;
