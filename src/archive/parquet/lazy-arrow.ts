import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);

let loadedArrow: typeof import('apache-arrow') | undefined;

/**
 * Arrow, loaded when something first needs it: with parquet-wasm that takes more than 100 ms, and most runs write and read
 * only what our own code does. It is the copy that an `import` gives, as its classes know only their own.
 */
export function loadArrow(): typeof import('apache-arrow') {
  loadedArrow ??= require(fileURLToPath(import.meta.resolve('apache-arrow'))) as typeof import('apache-arrow');
  return loadedArrow;
}

export const loadParquetWasm = (): typeof import('parquet-wasm') => require('parquet-wasm');
