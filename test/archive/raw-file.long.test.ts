import { rawFileTests } from './raw-file-tests.ts';

rawFileTests(1);
