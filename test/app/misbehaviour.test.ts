import { testNights, together } from './misbehaviour-nights.ts';

testNights(together);
