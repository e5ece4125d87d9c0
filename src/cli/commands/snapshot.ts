import { formatBytes, formatCount } from '../../base/format-quantity.ts';
import { type CliContext, type CommonFlags, withArchive, withCommonFlags } from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';

/** `snapshot`: one generation, held on to. */
export function addSnapshot(shell: CliContext): void {
  const command = shell.program
    .command('snapshot')
    .description('make a consistent copy of the published archive with hard links, for backups or repeatable studies')
    .argument('<dir>', 'a new or empty folder outside of the archive; on another device, files are copied');
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command, ['--wait', '--strict']).action((folder: string, flags: CommonFlags) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const { takeSnapshot } = await import('../../archive/read/snapshot.ts');
      const display = await context.startDisplay('snapshot', 1, 'files');
      try {
        const taken = await takeSnapshot(archive, folder, {
          id: Math.floor(context.random() * 36 ** 8).toString(36),
          onProgress: (done, total) => display.update({ done, total }),
          signal: context.signal,
        });
        display.stop();
        const how = taken.copied === 0 ? 'hard links' : `${taken.copied} of them copied, as they could not be linked`;
        const text = `${taken.folder}: generation ${taken.generation}, ${formatCount(taken.files, 'file')}, ${formatBytes(taken.bytes)}, ${how}\n`;
        process.stdout.write(flags.json === true ? `${JSON.stringify(taken)}\n` : text);
      } finally {
        display.stop();
      }
    }),
  );
}

const notes = `
Every file is checked against the manifest first; a damaged file ends the command with exit code 6. Later publishes do not
change the snapshot. It is an archive of its own: sql, export and verify read it with --output DIR.
Its files are hard links shared with the archive: do not modify them.`;

const examples = `
  oddslake snapshot backup/2026-11-21
  oddslake verify --output backup/2026-11-21`;
