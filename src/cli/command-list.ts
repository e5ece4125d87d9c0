import type { Command } from 'commander';
import type { CliContext } from './command-context.ts';

/** Adds the arguments, flags, notes and the action of a command. */
type AddCommand = (command: Command, cli: CliContext) => void;

interface ListedCommand {
  readonly name: string;
  readonly description: string;
  readonly load: () => Promise<AddCommand>;
}

/**
 * The commands in the order of the help. A run loads only the module of its own command, and the help none of them, because loading
 * them all would take longer than most commands.
 */
export const commandGroups: readonly { readonly heading: string; readonly commands: readonly ListedCommand[] }[] = [
  {
    heading: 'Collect:',
    commands: [
      {
        name: 'init',
        description:
          'write a config file from flags and environment, with prompts on a terminal, and create the archive',
        load: async () => (await import('./commands/init.ts')).addInit,
      },
      {
        name: 'nightly',
        description:
          'run the main job: poll the market lists, the new ticks of every live symbol and (if configured) the order books; then publish and verify',
        load: async () => (await import('./commands/jobs.ts')).addNightly,
      },
      {
        name: 'markets',
        description: 'poll the market lists once, and publish',
        load: async () => (await import('./commands/jobs.ts')).addMarkets,
      },
      {
        name: 'ticks',
        description: 'poll new ticks once, and publish',
        load: async () => (await import('./commands/jobs.ts')).addTicks,
      },
      {
        name: 'orderbook',
        description: 'poll the order books of orderbooks.symbols (default: every live symbol) once, and publish them',
        load: async () => (await import('./commands/jobs.ts')).addOrderbook,
      },
      {
        name: 'backfill',
        description: 'fetch past windows that are not covered; resumes after an interruption',
        load: async () => (await import('./commands/jobs.ts')).addBackfill,
      },
      {
        name: 'import',
        description:
          'import recordings from files: saved pages, CSV, NDJSON or Parquet, optionally compressed with gzip or zstd',
        load: async () => (await import('./commands/import.ts')).addImport,
      },
      {
        name: 'schedule',
        description:
          'run jobs at the times in the settings (schedule.nightly and others, cron expressions in UTC) until stopped',
        load: async () => (await import('./commands/schedule.ts')).addSchedule,
      },
      {
        name: 'publish',
        description: 'merge the journal into the day partitions',
        load: async () => (await import('./commands/jobs.ts')).addPublish,
      },
    ],
  },
  {
    heading: 'Inspect:',
    commands: [
      {
        name: 'status',
        description: 'print cursors, lag, journaled ticks, gaps and the last run; exit 4 if the lag exceeds --max-lag',
        load: async () => (await import('./commands/status.ts')).addStatus,
      },
      {
        name: 'report',
        description: 'write an HTML page about the state of the archive: runs, ticks, coverage, gaps, growth',
        load: async () => (await import('./commands/status.ts')).addReport,
      },
      {
        name: 'symbols',
        description: 'list known symbols, live ones first; search by ticker, question, category, market ID or venue',
        load: async () => (await import('./commands/symbols.ts')).addSymbols,
      },
      {
        name: 'gaps',
        description: "list the windows of each symbol's lifetime that no request has covered, with the reasons",
        load: async () => (await import('./commands/gaps.ts')).addGaps,
      },
      {
        name: 'tail',
        description: 'print new ticks of symbols as they arrive, until stopped',
        load: async () => (await import('./commands/tail.ts')).addTail,
      },
      {
        name: 'sql',
        description: 'run read-only SQL (DuckDB); each dataset is a view: ticks, symbols, markets, …; times are UTC',
        load: async () => (await import('./commands/export.ts')).addSql,
      },
      {
        name: 'export',
        description:
          "export a consistent slice of a dataset to one file, in the dataset's sort order; replaces an existing file atomically",
        load: async () => (await import('./commands/export.ts')).addExport,
      },
      {
        name: 'changes',
        description: 'list the published files that changed since a generation, for incremental copies',
        load: async () => (await import('./commands/copies.ts')).addChanges,
      },
    ],
  },
  {
    heading: 'Research:',
    commands: [
      {
        name: 'backtest',
        description: "run trading strategies on the archive's ticks, without look-ahead: run, list, show",
        load: async () => (await import('./commands/backtest.ts')).addBacktest,
      },
    ],
  },
  {
    heading: 'Maintain:',
    commands: [
      {
        name: 'doctor',
        description: 'check the machine, disk, settings, key, upstream and archive, and suggest fixes',
        load: async () => (await import('./commands/doctor.ts')).addDoctor,
      },
      {
        name: 'config',
        description: 'show and check the settings, from all of their sources',
        load: async () => (await import('./commands/config.ts')).addConfig,
      },
      {
        name: 'verify',
        description: 'check every published file against the SHA-256 in the manifest; exit 6 if one differs',
        load: async () => (await import('./commands/verify.ts')).addVerify,
      },
      {
        name: 'snapshot',
        description:
          'make a consistent copy of the published archive with hard links, for backups or repeatable studies',
        load: async () => (await import('./commands/copies.ts')).addSnapshot,
      },
      {
        name: 'push',
        description: 'upload the published generation to object storage; its readers switch to it in one step',
        load: async () => (await import('./commands/bucket.ts')).addPush,
      },
      {
        name: 'pull',
        description: 'download the generation in object storage as a local archive, or update an earlier pull',
        load: async () => (await import('./commands/bucket.ts')).addPull,
      },
    ],
  },
  {
    heading: 'Serve:',
    commands: [
      {
        name: 'serve',
        description: 'serve the archive over HTTP until stopped; clients need a key from oddslake keys create',
        load: async () => (await import('./commands/serve.ts')).addServe,
      },
      {
        name: 'keys',
        description: 'create, list, rotate and revoke the market data keys of the service, and show their usage',
        load: async () => (await import('./commands/credentials.ts')).addKeys,
      },
      {
        name: 'tokens',
        description: 'issue and revoke user tokens of the service',
        load: async () => (await import('./commands/credentials.ts')).addTokens,
      },
    ],
  },
  {
    heading: 'Try:',
    commands: [
      {
        name: 'sandbox',
        description:
          'run a simulated upstream service on loopback: same interface, deterministic from a seed, with faults on request',
        load: async () => (await import('./commands/sandbox.ts')).addSandbox,
      },
      {
        name: 'demo',
        description: 'run the sandbox and one nightly job against it, and print how to load the result (output/demo)',
        load: async () => (await import('./commands/demo.ts')).addDemo,
      },
    ],
  },
  {
    heading: 'Shell:',
    commands: [
      {
        name: 'completion',
        description: 'print a script with which bash, zsh or fish completes commands, flags, values and symbols',
        load: async () => (await import('./commands/completion.ts')).addCompletion,
      },
    ],
  },
];
