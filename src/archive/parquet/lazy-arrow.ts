import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);

let arrowLoaded: typeof import('apache-arrow') | undefined;

/**
 * Arrow, loaded when something first needs it: with parquet-wasm that takes more than 100 ms, and most runs write and read
 * only what our own code does. It is the copy that an `import` gives, as its classes know only their own.
 */
export function arrow(): typeof import('apache-arrow') {
  arrowLoaded ??= require(fileURLToPath(import.meta.resolve('apache-arrow'))) as typeof import('apache-arrow');
  return arrowLoaded;
}

export const parquetWasm = (): typeof import('parquet-wasm') => require('parquet-wasm');
