import { type Command, Option } from 'commander';
import { formatBytes, formatCount } from '../../base/format-quantity.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  withArchive,
  withCommonFlags,
} from '../command-context.ts';
import { withHelp } from '../help.ts';
import { createIntegerParser } from '../shared-options.ts';

interface ChangesFlags extends CommonFlags {
  readonly since: number;
}

/** `changes`: files to add to a copy of an earlier generation. */
export function addChanges(command: Command, shell: CliContext): void {
  command.addOption(
    new Option('--since <generation>', 'generation that the copy already has; 0 to list every file (required)')
      .argParser(createIntegerParser(0))
      .makeOptionMandatory(),
  );
  withHelp(command, changesNotes, changesExamples);
  withCommonFlags(command, flagsUnusedByReaders).action((flags: ChangesFlags) =>
    withArchive(flags, shell.version, async (archive) => {
      const [{ listChangedFiles, listRemovedPaths }, { sumFileSizes }] = await Promise.all([
        import('../../archive/publish/prune-files.ts'),
        import('../../archive/format/manifest.ts'),
      ]);
      const manifest = archive.readManifest();
      const { since } = flags;
      const { generation } = manifest;
      const files = listChangedFiles(manifest, since);
      const removed = listRemovedPaths(manifest, since);
      if (flags.json === true) {
        process.stdout.write(`${JSON.stringify({ since, generation, count: files.length, files, removed })}\n`);
        return;
      }
      for (const file of files) process.stdout.write(`${file.path}\n`);
      if (flags.quiet === true) return;
      // On standard error, so that only the paths are piped.
      process.stderr.write(
        since === generation
          ? `nothing changed: this is generation ${generation}\n`
          : `${formatCount(files.length, 'file')}, ${formatBytes(sumFileSizes(files).bytes)}, from generation ${since} to ${generation}\n`,
      );
      for (const path of removed) process.stderr.write(`removed by a repair; remove it from copies too: ${path}\n`);
    }),
  );
}

const changesNotes = `
Paths are relative to the archive's root and go to standard output; --json adds rows, bytes, sha256 and generation.
Files that a repair removed are listed on standard error, and under removed in --json.
The files at the root (manifest.json, SHA256SUMS, …) change with every generation and are not listed: copy them last.`;

const changesExamples = `
  oddslake changes --since 41 | rsync -a --files-from=- output/archive/ backup:archive/
  oddslake changes --since 0 --json | jq .generation`;

/** `snapshot`: a permanent copy of one generation. */
export function addSnapshot(command: Command, shell: CliContext): void {
  command.argument(
    '<dir>',
    'a new or empty folder outside of the archive; files are copied if it is on another file system',
  );
  withHelp(command, snapshotNotes, snapshotExamples);
  withCommonFlags(command, ['--wait', '--strict']).action((folder: string, flags: CommonFlags) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const [{ takeSnapshot }, { withFilesDisplay }] = await Promise.all([
        import('../../archive/read/snapshot.ts'),
        import('../../collector/steps/bucket-access.ts'),
      ]);
      const { random, signal } = context;
      const id = Math.floor(random() * 36 ** 8).toString(36);
      const snapshot = await withFilesDisplay(context, 'snapshot', (onProgress) =>
        takeSnapshot(archive, folder, { id, onProgress, signal }),
      );
      const linkText =
        snapshot.copied === 0 ? 'hard links' : `${snapshot.copied} copied because they could not be linked`;
      const text = `${snapshot.folder}: generation ${snapshot.generation}, ${formatCount(snapshot.files, 'file')}, ${formatBytes(snapshot.bytes)}, ${linkText}\n`;
      printResult(flags, snapshot, () => text);
    }),
  );
}

const snapshotNotes = `
Every file is checked against the manifest first; a damaged file ends the command with exit code 6. Later publishes do not
change the snapshot. It is a complete archive: sql, export and verify read it with --output DIR.
Do not modify its files: they are hard links, so the archive would change too.`;

const snapshotExamples = `
  oddslake snapshot backup/2026-11-21
  oddslake verify --output backup/2026-11-21`;
