import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The tests that judge the mutants of a room: its own and, of the archive, those of the state that it is written to. */
const judges: Readonly<Record<string, string>> = { core: 'core', archive: '{archive,state}', ingest: 'ingest' };

/** A mutant is caught by the first test that fails: those that search take longest, and come last. */
class SearchesLast extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const searches = ({ moduleId }: TestSpecification): number =>
      Number(readFileSync(moduleId, 'utf8').includes('fc.assert('));
    return files.toSorted((a, b) => searches(a) - searches(b));
  }
}

export default defineConfig({
  test: {
    include: [`test/${judges[process.env.ROOM || 'core']}/**/*.test.ts`],
    // A thread's time zone cannot be set, as these do.
    exclude: ['test/base/time-zones.test.ts'],
    testTimeout: 120_000,
    sequence: { sequencer: SearchesLast },
  },
});
