import { formatBytes, formatCount } from '../../base/format-quantity.ts';
import { type CliContext, type CommonFlags, withArchive, withCommonFlags } from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';

/** `snapshot`: a permanent copy of one generation. */
export function addSnapshot(shell: CliContext): void {
  const command = shell.program
    .command('snapshot')
    .description('make a consistent copy of the published archive with hard links, for backups or repeatable studies')
    .argument('<dir>', 'a new or empty folder outside of the archive; on another file system, files are copied');
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command, ['--wait', '--strict']).action((folder: string, flags: CommonFlags) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const { takeSnapshot } = await import('../../archive/read/snapshot.ts');
      const display = await context.startDisplay('snapshot', 1, 'files');
      try {
        const snapshot = await takeSnapshot(archive, folder, {
          id: Math.floor(context.random() * 36 ** 8).toString(36),
          onProgress: (done, total) => display.update({ done, total }),
          signal: context.signal,
        });
        display.stop();
        const linkText =
          snapshot.copied === 0 ? 'hard links' : `${snapshot.copied} copied because they could not be linked`;
        const text = `${snapshot.folder}: generation ${snapshot.generation}, ${formatCount(snapshot.files, 'file')}, ${formatBytes(snapshot.bytes)}, ${linkText}\n`;
        process.stdout.write(flags.json === true ? `${JSON.stringify(snapshot)}\n` : text);
      } finally {
        display.stop();
      }
    }),
  );
}

const notes = `
Every file is checked against the manifest first; a damaged file ends the command with exit code 6. Later publishes do not
change the snapshot. It is a complete archive: sql, export and verify read it with --output DIR.
Its files are hard links shared with the archive: do not modify them.`;

const examples = `
  oddslake snapshot backup/2026-11-21
  oddslake verify --output backup/2026-11-21`;
