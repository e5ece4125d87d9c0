import { rowPagesTests } from './row-pages-tests.ts';

rowPagesTests(1);
