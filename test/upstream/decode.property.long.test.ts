import { decodeTests } from './decode.property-tests.ts';

decodeTests(1);
