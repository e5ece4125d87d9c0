import { ticksFileTests } from './ticks-file-tests.ts';

ticksFileTests(1);
