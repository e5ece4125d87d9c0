import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { expect } from 'vitest';

/** The root of the project, with a slash at the end. */
export const project = new URL('../..', import.meta.url).pathname;

/** Expects that a generated file is current. With UPDATE_DOCS=1 it is written first. */
export function expectUpToDate(path: string, text: string): void {
  const at = project + path;
  if (process.env.UPDATE_DOCS === '1') writeFileSync(at, text);
  expect(existsSync(at) ? readFileSync(at, 'utf8') : '', `${path}: UPDATE_DOCS=1 writes it`).toBe(text);
}
