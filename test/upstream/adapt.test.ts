import { adaptTests } from './adapt-tests.ts';

adaptTests(0.4);
