import { verifyThreadsTests } from './verify-threads-tests.ts';

verifyThreadsTests(0.2);
