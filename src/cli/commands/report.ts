import type { Command } from 'commander';
import { UsageError } from '../../base/errors.ts';
import { formatBytes } from '../../base/format-quantity.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  openReadableArchive,
  printResult,
  withCommonFlags,
  withContext,
} from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { escapeControls } from '../terminal-style.ts';

interface ReportFlags extends CommonFlags {
  readonly out?: string;
}

/** `report`: writes the status of the archive as an HTML page. */
export function addReport(command: Command, shell: CliContext): void {
  command.option('--out <file>', "output file, replaced if it exists (default: report.html in the archive's root)");
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command, flagsUnusedByReaders, true).action((flags: ReportFlags) =>
    withContext(flags, shell.version, false, (context) => {
      const { bucketUrl } = context.settings.archive;
      if (bucketUrl !== null && flags.out === undefined)
        throw new UsageError(
          `Where to? ${bucketUrl} is in object storage: name the file of the report with --out FILE.`,
        );
      return openReadableArchive(context, async (archive) => {
        const { writeReport } = await import('../../report/write-report.ts');
        const { health, ...written } = await writeReport(archive, context, flags.out ?? null);
        const { state, headline, nextAction, findings } = health;
        const { path, bytes, generation } = written;
        // The findings contain symbols and messages of the service.
        const lines = [
          `${path}: ${formatBytes(bytes)}, generation ${generation}`,
          `${headline}.`,
          ...findings.map(({ message }) => `  ${message}`),
          ...(nextAction === null ? [] : [`Next: ${nextAction}`]),
        ];
        printResult(
          flags,
          { ...written, state, headline, next_action: nextAction, findings },
          () => `${lines.map(escapeControls).join('\n')}\n`,
        );
      });
    }),
  );
}

const notes = `
The page is self-contained, without scripts. It shows one generation and can be written while jobs run. nightly also
writes it unless report.nightly is false; report.days sets the number of days shown.`;

const examples = `
  oddslake report
  oddslake report --out status.html
  oddslake report --archive s3://lakes/markets --out status.html`;
