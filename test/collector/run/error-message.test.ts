import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { UpstreamError, UsageError } from '../../../src/base/errors.ts';
import { formatErrorMessage } from '../../../src/collector/run/error-message.ts';
import { scratchFolder } from '../../archive/scratch.ts';

const thrownBy = (work: () => unknown): unknown => {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error('it went well');
};

test('errors of the system say what was done, to what, what it means and what to do', () => {
  const folder = scratchFolder();
  const file = join(folder, 'file');
  writeFileSync(file, '');
  expect(formatErrorMessage(thrownBy(() => readFileSync(join(folder, 'none'))))).toBe(
    `Could not open ${join(folder, 'none')}: it is not there (any more). Make it, or name another place. (ENOENT)`,
  );
  expect(formatErrorMessage(thrownBy(() => mkdirSync(join(file, 'below'))))).toBe(
    `Could not mkdir ${join(file, 'below')}: a part of its path is a file, not a folder. Name another place. (ENOTDIR)`,
  );
  expect(formatErrorMessage(thrownBy(() => mkdirSync(folder)))).toContain('something of that name is there already');
});

test('a fault of the program is told as one, and where to see more', () => {
  expect(formatErrorMessage(new TypeError('x is not a function'))).toBe(
    'Something unexpected went wrong (TypeError): x is not a function. --log-level debug shows where it came from.',
  );
  expect(formatErrorMessage('just a text')).toMatch(/^Something unexpected went wrong: just a text\. /);
});

test('what is said for people is said as it is', () => {
  expect(formatErrorMessage(new UsageError('--from must be a time.'))).toBe('--from must be a time.');
});

test('a refused key and an upstream out of reach name the variables to look at', () => {
  const refused = new UpstreamError('markets', { failure: 'credential', reason: 'answered 401' });
  expect(formatErrorMessage(refused)).toMatch(/answered 401.*ODDSLAKE_API_KEY/);
  expect(formatErrorMessage(refused, true)).toMatch(/The other oddslake.*ODDSLAKE_FROM_API_KEY/);
  const away = new UpstreamError('markets', { failure: 'unreachable', reason: 'connection refused' });
  expect(formatErrorMessage(away)).toMatch(/connection refused.*ODDSLAKE_BASE_URL/);
});
