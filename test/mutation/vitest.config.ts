import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The first failing test catches a mutant, so property tests, which take longest, run last. */
class SearchesLast extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const searches = ({ moduleId }: TestSpecification): number =>
      Number(/check(Async)?Property\(|fc\.assert\(/.test(readFileSync(moduleId, 'utf8')));
    return files.toSorted((a, b) => searches(a) - searches(b));
  }
}

export default defineConfig({
  test: {
    include: [`test/${process.env.ROOM || 'base'}/**/*.test.ts`],
    // They set the time zone, which a thread cannot do.
    exclude: ['test/base/time-zones.test.ts'],
    testTimeout: 120_000,
    sequence: { sequencer: SearchesLast },
  },
});
