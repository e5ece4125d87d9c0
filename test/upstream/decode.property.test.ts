import { decodeTests } from './decode.property-tests.ts';

decodeTests(0.1);
