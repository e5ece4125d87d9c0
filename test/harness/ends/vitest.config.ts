import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    name: 'quick',
    include: ['**/some-of-each.ts', '**/slow.ts'],
    setupFiles: new URL('../cpu-time.ts', import.meta.url).pathname,
    reporters: [[new URL('../reporter.ts', import.meta.url).pathname, { quickCpuMsMax: 200 }]],
  },
});
