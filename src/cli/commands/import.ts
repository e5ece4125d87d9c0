import { Option } from 'commander';
import type { ImportFlags } from '../../app/import/step.ts';
import { UsageError } from '../../core/errors.ts';
import { parseTime } from '../../core/time.ts';
import type { Window } from '../../core/window.ts';
import { openZone } from '../../core/zone.ts';
import { withExamples, withNotes } from '../help.ts';
import { runAndTell } from '../run-job.ts';
import { type CommonFlags, withCommonFlags } from '../session.ts';
import type { Shell } from '../shell.ts';

interface ImportOptions extends CommonFlags {
  readonly dataset?: ImportFlags['dataset'];
  readonly format?: ImportFlags['format'];
  readonly tz?: string;
  readonly covers?: string;
  readonly prefer?: 'import';
}

/** `import`: recordings from files. */
export function addImport(shell: Shell): void {
  const command = shell.program
    .command('import')
    .description('take recordings from files: saved pages, CSV, NDJSON, Parquet, gzip and zstd of each')
    .argument('<file|dir...>', 'files, or folders with all files below them')
    .addOption(
      new Option('--dataset <name>', 'what they hold (default: what their columns say)').choices(['ticks', 'markets']),
    )
    .addOption(
      new Option('--format <format>', 'how they are written (default: what their names say)').choices([
        'pages',
        'csv',
        'ndjson',
        'parquet',
        'raw',
      ]),
    )
    .option('--tz <zone>', 'the time zone of timestamps that name none, e.g. UTC or America/New_York')
    .option('--covers <from..to>', 'rows hold every tick of their symbols in this window; none is missing there')
    .addOption(
      new Option('--prefer <which>', 'imported prices replace polled ones of the same moment').choices(['import']),
    );
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((paths: string[], flags: ImportOptions) =>
    runAndTell(shell, 'import', flags, shell.jobs.import, () => ({
      ...{ paths, dataset: flags.dataset ?? null, format: flags.format ?? null },
      zone: flags.tz === undefined ? null : openZone(flags.tz),
      covers: flags.covers === undefined ? null : windowOf(flags.covers),
      preferred: flags.prefer === 'import',
    })),
  );
}

function windowOf(text: string): Window {
  const [from, to, ...rest] = text.split('..');
  if (from === undefined || to === undefined || rest.length > 0)
    throw new UsageError(
      `--covers ${JSON.stringify(text)}: expected two times with .. between, e.g. 2026-07-11..2026-07-13`,
    );
  const window = { from: parseTime(from, '--covers'), to: parseTime(to, '--covers') };
  if (window.from >= window.to) throw new UsageError('--covers: its start must be before its end.');
  return window;
}

const notes = `
Ticks are rows of symbol, t, p: t in epoch milliseconds, or a timestamp; p as the price came. Saved pages are answers of
the service as they were received (JSON, one a file); they cover what they state, rows only what --covers says. Markets are
rows with a symbol or canonical_id, or saved answers; fields are found by source.field_paths. What cannot be used is
set aside in .oddslake/quarantine. Answers as they came, which every job keeps in .oddslake/raw for raw.keep_days, are read
again as if they came now: what a fault of this program made of them is made good. Importing a file again changes no tick.`;

const examples = `
  oddslake import --output lake saved-pages/
  oddslake import --output lake lake/.oddslake/raw
  oddslake import --output lake ticks.parquet --tz UTC --covers 2026-07-11..2026-07-13
  oddslake import --output lake ticks.csv.gz --tz America/New_York --prefer import
  oddslake import --output new-lake ticks.ndjson.zst --set source.name=https://example.org
  oddslake import --output lake markets.parquet --dataset markets --set 'source.field_paths.outcome=["resolved_yes"]'`;
