/**
 * The share of random cases and largest inputs that property tests use, above 0. All of them (1), unless `make test`
 * sets TEST_SHARE. `make check`, CI and tests run by file name use all.
 */
export const share: number = Number(process.env.TEST_SHARE ?? 1);
