import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { common } from '../../vitest.config.ts';

// The test files listed in a file, NEAREST, in that order: for drawn-faults.ts.

const root = new URL('../..', import.meta.url).pathname;
const files = JSON.parse(readFileSync(process.env.NEAREST!, 'utf8')) as string[];

class InOrder extends BaseSequencer {
  override async sort(specifications: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => files.indexOf(relative(root, moduleId));
    return specifications.toSorted((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  root,
  test: {
    ...common,
    include: files,
    maxWorkers: Number(process.env.WORKERS || 2),
    isolate: false,
    reporters: ['default'],
    sequence: { sequencer: InOrder },
  },
});
