import { partTaskTests } from './part-task-tests.ts';

partTaskTests(0.25);
