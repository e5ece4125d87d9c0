import { join } from 'node:path';
import type { Command } from 'commander';
import { exitCodes } from '../../base/errors.ts';
import { formatBytes, formatCount } from '../../base/format-quantity.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { systemClock } from '../../base/system.ts';
import { completeCommands } from '../../context/command-name.ts';
import type { Context } from '../../context/context.ts';
import {
  type CliContext,
  type CommonFlags,
  mergeArchiveFlags,
  withCommonFlags,
  withContext,
  withLocalArchive,
} from '../command-context.ts';
import { withHelp } from '../help.ts';
import { formatSummary, reportSummary } from '../print-summary.ts';
import { requireOwner } from '../require-owner.ts';
import { getTerminalStyle } from '../terminal-style.ts';

/** `demo`: runs the nightly job against the sandbox. */
export function addDemo(command: Command, shell: CliContext): void {
  withHelp(command, notes, examples);
  withCommonFlags(command).action(async (flags: CommonFlags) => {
    const { startSandbox } = await import('../../sandbox/sandbox.ts');
    const sandbox = await startSandbox({ markets: 30, seed: 7, cap: 1000 }, { clock: systemClock });
    // Settings of the real upstream must not apply to the sandbox.
    const overrides = [
      `upstream.base_url=${sandbox.url}`,
      'upstream.api_key=sandbox-key',
      'upstream.requests_per_second=500',
      'source.name=oddslake sandbox',
      // A demo sends no notifications and pushes nothing.
      'bucket.url=null',
      'notify.webhook_url=null',
      'notify.webhook_url_file=null',
      'notify.ping_jobs=[]',
    ];
    const { archive: _, config = null, ...others } = flags;
    const output = mergeArchiveFlags(flags) ?? join('output', 'demo');
    try {
      const own = { ...others, config, output, set: [...flags.set, ...overrides] };
      await withContext(own, shell.version, true, async (context) => {
        requireOwner(context.settings);
        const nightly = await shell.jobs.nightly();
        const summary = await nightly.run(context, { day: null });
        const root = context.settings.archive.output;
        if (flags.json === true) return reportSummary(shell, flags, summary, root);
        process.stdout.write(`${formatSummary(summary, root, getTerminalStyle(process.stdout))}\n`);
        if (summary.exit_code === exitCodes.done) process.stdout.write(await describeDemoArchive(context));
        shell.setExitCode(summary.exit_code);
      });
    } finally {
      await sandbox.stop();
    }
  });
}

async function describeDemoArchive(context: Context): Promise<string> {
  const [{ reportFileName }, { sumFileSizes }] = await Promise.all([
    import('../../report/write-report.ts'),
    import('../../archive/format/manifest.ts'),
  ]);
  const { root, datasets, days } = await withLocalArchive(context, ({ layout, readManifest }) => ({
    root: layout.root,
    ...readManifest(),
  }));
  const { rows, bytes } = sumFileSizes(datasets.ticks.files);
  // JSON's strings are Python's too.
  const folder = JSON.stringify(`${root}/ticks/`);
  const query = `SELECT * FROM '${root.replaceAll("'", "''")}/ticks/date=*/*.parquet' LIMIT 5`;
  return `
${formatCount(rows, 'tick')} of ${formatCount(Object.keys(days).length, 'day')} in ${formatBytes(bytes)} of Parquet: ${root}

Load them in Python:

  import duckdb;       duckdb.sql(${JSON.stringify(query)}).show()
  import polars as pl; print(pl.read_parquet(${folder}))
  import pandas as pd; print(pd.read_parquet(${folder}))

Or run SQL:

  ${completeCommands(`oddslake sql --output ${quoteShellWord(root)}`)} "SELECT date, count(*) AS ticks FROM ticks GROUP BY 1 ORDER BY 1"
${
  context.settings.report.nightly
    ? `
Or open the report in a browser:

  ${join(root, reportFileName)}\n`
    : ''
}`;
}

const notes = `
Needs neither a key nor a network: the service is simulated on this machine. A config file is read only if --config names it.`;

const examples = `
  oddslake demo
  oddslake demo --output elsewhere`;
