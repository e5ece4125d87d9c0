import { join } from 'node:path';
import type { Context } from '../../app/context.ts';
import { exitCodes } from '../../core/errors.ts';
import { many, size } from '../../core/format-quantity.ts';
import { type CommonFlags, withCommonFlags, withContext } from '../command-context.ts';
import { commandName, type Shell } from '../command-types.ts';
import { withExamples, withNotes } from '../help.ts';
import { tell } from '../print-result.ts';
import { summaryText } from '../print-summary.ts';
import { styleOf } from '../terminal-style.ts';

/** `demo`: the main job against the sandbox. */
export function addDemo(shell: Shell): void {
  const command = shell.program
    .command('demo')
    .description('run the sandbox and one nightly into output/demo, and print how to load the result');
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action(async (flags: CommonFlags) => {
    const [{ startSandbox }, { systemClock }] = await Promise.all([
      import('../../sandbox/sandbox.ts'),
      import('../../system.ts'),
    ]);
    const sandbox = await startSandbox({ markets: 30, seed: 7, cap: 1000 }, { clock: systemClock });
    // Whatever the user has set for the real upstream is not for the sandbox.
    const overrides = [
      `upstream.base_url=${sandbox.url}`,
      'upstream.api_key=sandbox-key',
      'upstream.requests_per_second=500',
      'source.name=oddslake sandbox',
      // Nor is it a run that others are told of.
      'notify.webhook_url=null',
      'notify.webhook_url_file=null',
      'metrics.textfile=null',
    ];
    const amend = (sources: { set: readonly string[]; output?: string }) => ({
      set: [...sources.set, ...overrides],
      output: sources.output ?? join('output', 'demo'),
    });
    try {
      await withContext(
        flags,
        shell.version,
        true,
        async (context) => {
          const nightly = await shell.jobs.nightly();
          const summary = await nightly.run(context, { day: null });
          const root = context.settings.archive.output;
          if (flags.json === true) return tell(shell, flags, summary, root);
          process.stdout.write(`${summaryText(summary, root, styleOf(process.stdout))}\n`);
          if (summary.exit_code === exitCodes.done) process.stdout.write(await whatIsThere(context));
          shell.exit(summary.exit_code);
        },
        amend,
      );
    } finally {
      await sandbox.stop();
    }
  });
}

async function whatIsThere(context: Context): Promise<string> {
  const [{ openConfiguredArchive }, { reportName }, { totalsOf }] = await Promise.all([
    import('../../app/open-configured.ts'),
    import('../../app/report.ts'),
    import('../../archive/manifest.ts'),
  ]);
  const archive = openConfiguredArchive(context, false);
  try {
    const { datasets, days } = archive.manifest();
    const { rows, bytes } = totalsOf(datasets.ticks.files);
    const root = archive.layout.root;
    return `
${many(rows, 'tick')} of ${many(Object.keys(days).length, 'day')} in ${size(bytes)} of Parquet: ${root}

Load them in Python:

  import duckdb;       duckdb.sql("SELECT * FROM '${root}/ticks/date=*/*.parquet' LIMIT 5").show()
  import polars as pl; print(pl.read_parquet("${root}/ticks/"))
  import pandas as pd; print(pd.read_parquet("${root}/ticks/"))

or ask here:  ${commandName()} sql --output ${root} "SELECT date, count(*) AS ticks FROM ticks GROUP BY 1 ORDER BY 1"
${context.settings.report.nightly ? `or look at how it stands, in a browser:  ${join(root, reportName)}\n` : ''}`;
  } finally {
    archive.close();
  }
}

const notes = `
Needs no key and no network: the service is simulated on this machine.`;

const examples = `
  oddslake demo
  oddslake demo --output elsewhere`;
