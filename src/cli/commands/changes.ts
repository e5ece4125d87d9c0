import { Option } from 'commander';
import { many, size } from '../../core/format-quantity.ts';
import { type CommonFlags, idleWhereRead, withArchive, withCommonFlags } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { withExamples, withNotes } from '../help.ts';
import { wholeNumber } from '../options.ts';

interface ChangesFlags extends CommonFlags {
  readonly since: number;
}

/** `changes`: what a copy of an earlier generation lacks. */
export function addChanges(shell: Shell): void {
  const command = shell.program
    .command('changes')
    .description('list the published files that changed since a generation, for incremental copies')
    .addOption(
      new Option('--since <generation>', 'the generation that the copy is of; 0 for every file (required)')
        .argParser(wholeNumber(0))
        .makeOptionMandatory(),
    );
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command, idleWhereRead).action((flags: ChangesFlags) =>
    withArchive(flags, shell.version, async (archive) => {
      const [{ changesSince, removedSince }, { totalsOf }] = await Promise.all([
        import('../../archive/copies/diff-generations.ts'),
        import('../../archive/manifest.ts'),
      ]);
      const manifest = archive.manifest();
      const [from, to] = [flags.since, manifest.generation];
      const files = changesSince(manifest, from);
      const removed = removedSince(manifest, from);
      if (flags.json === true) {
        process.stdout.write(`${JSON.stringify({ from, to, count: files.length, files, removed })}\n`);
        return;
      }
      for (const file of files) process.stdout.write(`${file.path}\n`);
      if (flags.quiet === true) return;
      // Apart from the paths, so that those alone can be piped on.
      process.stderr.write(
        from === to
          ? `nothing changed: this is generation ${to}\n`
          : `${many(files.length, 'file')}, ${size(totalsOf(files).bytes)}, from generation ${from} to ${to}\n`,
      );
      for (const path of removed) process.stderr.write(`removed by a repair, and to be removed from copies: ${path}\n`);
    }),
  );
}

const notes = `
Paths are relative to the archive's root and go to standard output; --json adds rows, bytes, sha256 and generation.
Files that a repair removed are named on standard error, and in --json under removed.
The files at the root (manifest.json, SHA256SUMS, …) change with every generation and are not listed: copy them last.`;

const examples = `
  oddslake changes --since 41 | rsync -a --files-from=- output/archive/ backup:archive/
  oddslake changes --since 0 --json | jq .to`;
