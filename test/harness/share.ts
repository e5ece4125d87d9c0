/**
 * The share of its random cases and largest inputs that a property is tried on, above 0: all of them (1), unless `make
 * test` asks for fewer by TEST_SHARE. `make check` and a file that is named run all.
 */
export const share: number = Number(process.env.TEST_SHARE ?? 1);
