import { publishTests } from './publish-tests.ts';

publishTests(1);
