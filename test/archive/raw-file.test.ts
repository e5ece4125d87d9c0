import { rawFileTests } from './raw-file-tests.ts';

rawFileTests(0.15);
