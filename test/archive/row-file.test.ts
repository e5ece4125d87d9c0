import { rowFileTests } from './row-file-tests.ts';

rowFileTests(0.2);
