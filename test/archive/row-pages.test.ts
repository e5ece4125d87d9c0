import { rowPagesTests } from './row-pages-tests.ts';

rowPagesTests(0.2);
