import { rawKeeperTests } from './raw-keeper-tests.ts';

rawKeeperTests(0.5);
