import { configDefaults, defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // These search, and take their time: see vitest.torture.config.ts.
    exclude: [...configDefaults.exclude, 'test/faults/**'],
    maxWorkers: 2,
    testTimeout: 20_000,
    hookTimeout: 20_000,
    // A zone with half hours and daylight saving: code that reads local time by accident fails here.
    env: { TZ: 'America/St_Johns' },
  },
});
