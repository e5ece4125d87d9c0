import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { expect } from 'vitest';

/** The project's root, with a slash at its end. */
export const project = new URL('../..', import.meta.url).pathname;

/** That a file which is made from the program is as the program is now; with UPDATE_DOCS=1 it is written first. */
export function expectCurrent(path: string, text: string): void {
  const at = project + path;
  if (process.env.UPDATE_DOCS === '1') writeFileSync(at, text);
  expect(existsSync(at) ? readFileSync(at, 'utf8') : '', `${path}: UPDATE_DOCS=1 renews it`).toBe(text);
}
