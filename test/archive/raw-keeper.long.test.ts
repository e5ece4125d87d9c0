import { rawKeeperTests } from './raw-keeper-tests.ts';

rawKeeperTests(1);
