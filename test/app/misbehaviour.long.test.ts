import { alone, testNights } from './misbehaviour-nights.ts';

testNights(alone);
