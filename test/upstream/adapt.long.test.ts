import { adaptTests } from './adapt-tests.ts';

adaptTests(1);
