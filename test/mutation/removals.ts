/**
 * Removes, one at a time, the calls that make the archive durable and its readers careful (each sync, rename, link,
 * folder and lock) and inverts each comparison of checksums. Some test has to fail. Runs the tests of the archive
 * first, then the search for crash points. Run: make mutants; ONLY=commit for files of that name, LIST=1 to list the
 * mutants.
 */
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { findCatchingTest, type Mutant, root, withCopy } from './copy.ts';

/** A call with any arguments. */
const durable =
  /\b(?:\w+\.)*(?:disk|calls|lock)\.(?:sync|syncFolder|rename|link|makeFolder|release)\((?:[^()]|\([^()]*\))*\)/;
const checksum = /sha256.*(?:!==|===)|(?:!==|===).*(?:sha256|hash)\b/;

function listMutants(file: string): Mutant[] {
  const lines = readFileSync(join(root, file), 'utf8').split('\n');
  return lines.flatMap((before, at): Mutant[] => {
    if (/^\s*(\*|\/\/|\/\*)/.test(before)) return [];
    const createMutant = (after: string): Mutant[] => [{ file, line: at + 1, before, after }];
    if (durable.test(before)) return createMutant(before.replace(durable, 'undefined'));
    if (!checksum.test(before)) return [];
    return createMutant(before.replace(/!==|===/, (sign) => (sign === '===' ? '!==' : '===')));
  });
}

/** The searches over all crash points, and over damage. */
const searches = ['test/faults/sweep', 'test/faults/damage'];

const files = globSync('src/archive/**/*.ts', { cwd: root }).sort();
const only = process.env.ONLY ?? '';
const mutants = files.filter((file) => basename(file).includes(only)).flatMap(listMutants);
if (process.env.LIST) {
  for (const { file, line, before } of mutants) console.log(`${file}:${line}  ${before.trim()}`);
} else {
  const calls = [
    ['run', 'test/archive'],
    ['run', '--config', 'vitest.torture.config.ts', ...searches],
  ];
  let caught = 0;
  await withCopy((copy) => {
    for (const [n, mutant] of mutants.entries()) {
      const caughtTest = findCatchingTest(mutant, copy, calls);
      if (caughtTest !== null) caught++;
      const outcome = caughtTest === null ? 'SURVIVED' : `caught by ${caughtTest[1]}`;
      console.log(`${n + 1}/${mutants.length} ${mutant.file}:${mutant.line}  ${mutant.before.trim()}: ${outcome}`);
    }
  });
  console.log(`${caught} of ${mutants.length} caught`);
}
