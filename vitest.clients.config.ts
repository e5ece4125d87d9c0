import { defineConfig } from 'vitest/config';
import { common } from './vitest.config.ts';

// The service as generated clients call it: test/clients/run installs their generators first.
export default defineConfig({ test: { ...common, include: ['test/clients/**/*.test.ts'] } });
