import { relative } from 'node:path';
import type { Environment } from './layers.ts';

/** Only this function reads the environment of the process. All other code receives it as a value. */
export const readProcessEnvironment = (): Environment => process.env;

/** A path relative to the working folder if it lies below it. */
export function toShortPath(path: string): string {
  const short = relative('.', path);
  return short === '' || short.startsWith('..') ? path : short;
}
