import { partTaskTests } from './part-task-tests.ts';

partTaskTests(1);
