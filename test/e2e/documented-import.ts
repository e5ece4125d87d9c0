import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { findBlocks, findFiles, readPage } from '../docs/blocks.ts';
import { put } from './import-lake.ts';
import { expectDone, folder } from './lake.ts';
import { run } from './run-program.ts';

/**
 * Runs the example of a section of docs/IMPORT.md: its file, its commands and the output of the last one.
 * @returns what each command printed; the last one has no spaces at the ends of lines, as the page
 */
export async function runDocumentedImport(
  heading: string,
  flags: readonly string[],
): Promise<{ readonly printed: readonly string[]; readonly shown: string }> {
  const [, section] = readPage('docs/IMPORT.md').split(`\n## ${heading}\n`);
  const [file] = findFiles(section!);
  const [commands] = findBlocks(section!, 'sh');
  const [shown] = findBlocks(section!, 'text');
  const files = folder();
  const path = put(files, file!.name, file!.code);
  const output = join(files, 'lake');
  const printed: string[] = [];
  for (const line of commands!.trim().split('\n')) {
    const words = execFileSync('sh', ['-c', `printf '%s\\n' ${line.replace('oddslake ', '')}`], { encoding: 'utf8' });
    const place = (word: string): string => (word === 'lake' ? output : word === file!.name ? path : word);
    const { stdout } = await expectDone(run([...words.trimEnd().split('\n').map(place), ...flags]));
    printed.push(stdout.replace(/ +$/gm, ''));
  }
  return { printed, shown: shown! };
}
