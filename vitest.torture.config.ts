import { defineConfig, mergeConfig } from 'vitest/config';
import usual from './vitest.config.ts';

// The search for faults, apart from the tests that every change waits for: `make torture`.
export default mergeConfig(
  { ...usual, test: { ...usual.test, include: [], exclude: [] } },
  defineConfig({ test: { include: ['test/faults/**/*.test.ts'], testTimeout: 300_000, hookTimeout: 60_000 } }),
);
