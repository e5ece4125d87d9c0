import { basename } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { common } from './vitest.config.ts';

/** Takes minutes each, in this order: begun last, one of them would run alone at the end, with a processor idle. */
const longest = ['sweep.test.ts', 'races.test.ts', 'kills.test.ts', 'simulation.test.ts'];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = longest.indexOf(basename(moduleId));
      return at < 0 ? longest.length : at;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}

// The search for faults, apart from the tests that every change waits for, and what is generated at greater length:
// `make torture`.
export default defineConfig({
  test: {
    ...common,
    include: ['test/faults/**/*.test.ts', 'test/server/generated.long.test.ts'],
    env: { ...common.env, CASES: process.env.CASES ?? '5000' },
    sequence: { sequencer: LongestFirst },
  },
});
