import { Command } from 'commander';
import type { JobLoaders } from '../app/job.ts';
import type { CliContext } from './command-types.ts';
import { addBackfill } from './commands/backfill.ts';
import { addBacktest } from './commands/backtest.ts';
import { addChanges } from './commands/changes.ts';
import { addDemo } from './commands/demo.ts';
import { addDoctor } from './commands/doctor.ts';
import { addExport } from './commands/export.ts';
import { addGaps } from './commands/gaps.ts';
import { addImport } from './commands/import.ts';
import { addInit } from './commands/init.ts';
import { addKeys } from './commands/keys.ts';
import { addMarkets } from './commands/markets.ts';
import { addNightly } from './commands/nightly.ts';
import { addOrderbook } from './commands/orderbook.ts';
import { addPublish } from './commands/publish.ts';
import { addReport } from './commands/report.ts';
import { addSandbox } from './commands/sandbox.ts';
import { addSchedule } from './commands/schedule.ts';
import { addServe } from './commands/serve.ts';
import { addSnapshot } from './commands/snapshot.ts';
import { addSql } from './commands/sql.ts';
import { addStatus } from './commands/status.ts';
import { addSymbols } from './commands/symbols.ts';
import { addTicks } from './commands/ticks.ts';
import { addTokens } from './commands/tokens.ts';
import { addUpgrade } from './commands/upgrade.ts';
import { addVerify } from './commands/verify.ts';
import { configureUsageErrors, withExamples, withNotes } from './help.ts';

/** The whole command line. Commands load what they need when they run, so that help comes at once. */
/** @param words those of the command line behind the program's name */
export function createProgram(
  version: string,
  jobs: JobLoaders,
  exit: (code: number) => void,
  words: readonly string[] = [],
): Command {
  const program = new Command('oddslake')
    .description('Records a prediction-market data service: every tick exactly once, as day-partitioned Parquet.')
    .version(version, '--version', 'show the version')
    .helpOption('--help', 'show help; also after a command')
    .helpCommand('help [command]', 'show help for a command')
    .exitOverride();
  withExamples(program, examples);
  withNotes(program, notes);
  const shell: CliContext = { program, version, args: words, jobs, setExitCode: exit };
  program.commandsGroup('Collect:');
  for (const add of [addInit, addNightly, addMarkets, addTicks, addOrderbook, addBackfill, addImport]) add(shell);
  for (const add of [addSchedule, addPublish]) add(shell);
  program.commandsGroup('Look:');
  for (const add of [addStatus, addReport, addSymbols, addGaps, addSql, addExport, addChanges]) add(shell);
  program.commandsGroup('Research:');
  addBacktest(shell);
  program.commandsGroup('Keep:');
  for (const add of [addDoctor, addVerify, addSnapshot, addUpgrade]) add(shell);
  program.commandsGroup('Serve:');
  for (const add of [addServe, addKeys, addTokens]) add(shell);
  program.commandsGroup('Try:');
  for (const add of [addSandbox, addDemo]) add(shell);
  for (const command of program.commands.flatMap((each) => [each, ...each.commands])) command.exitOverride();
  configureUsageErrors(program);
  return program;
}

const examples = `
  oddslake demo                                  try it: a simulated service and one nightly run
  ODDSLAKE_BASE_URL=https://example.org ODDSLAKE_API_KEY_FILE=key.txt \\
    oddslake nightly --output lake               the nightly job
  oddslake backfill --output lake --from 2026-11-01 --to 2026-11-08 --dry-run
  oddslake sql --output lake "SELECT date, count(*) FROM ticks GROUP BY 1 ORDER BY 1"`;

const notes = `
Times are UTC. Exit codes: 0 done, 1 unexpected, 2 usage or settings, 3 key refused, 4 incomplete, 5 another run is writing,
6 archive damaged, 7 upstream unreachable, 130 and 143 stopped by a signal. oddslake COMMAND --help says more of each.`;
