import { defineConfig, mergeConfig } from 'vitest/config';
import usual from './vitest.config.ts';

// The search for faults, apart from the tests that every change waits for, and what is generated at greater length:
// `make torture`.
export default mergeConfig(
  { ...usual, test: { ...usual.test, include: [], exclude: [] } },
  defineConfig({
    test: {
      include: ['test/faults/**/*.test.ts', 'test/service/generated.test.ts'],
      testTimeout: 300_000,
      hookTimeout: 60_000,
      env: { CASES: process.env.CASES ?? '5000' },
    },
  }),
);
