import { verifyThreadsTests } from './verify-threads-tests.ts';

verifyThreadsTests(1);
