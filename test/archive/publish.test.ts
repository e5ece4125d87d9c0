import { publishTests } from './publish-tests.ts';

publishTests(0.3);
