import { defineConfig } from 'vitest/config';
import { common } from './vitest.config.ts';

// The search for faults, apart from the tests that every change waits for, and what is generated at greater length:
// `make torture`.
export default defineConfig({
  test: {
    ...common,
    include: ['test/faults/**/*.test.ts', 'test/server/generated.long.test.ts'],
    env: { ...common.env, CASES: process.env.CASES ?? '5000' },
  },
});
