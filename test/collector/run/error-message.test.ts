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

test('system errors name the call, the path, the meaning and the remedy', () => {
  const folder = scratchFolder();
  const file = join(folder, 'file');
  writeFileSync(file, '');
  expect(formatErrorMessage(thrownBy(() => readFileSync(join(folder, 'none'))))).toBe(
    `Could not open ${join(folder, 'none')}: no such file or folder. Create it, or use another path. (ENOENT)`,
  );
  expect(formatErrorMessage(thrownBy(() => mkdirSync(join(file, 'below'))))).toBe(
    `Could not mkdir ${join(file, 'below')}: a part of the path is a file, not a folder. Use another path. (ENOTDIR)`,
  );
  expect(formatErrorMessage(thrownBy(() => mkdirSync(folder)))).toContain('it exists already');
});

test('an unexpected error names the flag for its stack trace', () => {
  expect(formatErrorMessage(new TypeError('x is not a function'))).toBe(
    'Unexpected error (TypeError): x is not a function. To see its stack trace, use --log-level debug.',
  );
  expect(formatErrorMessage('just a text')).toMatch(/^Unexpected error: just a text\. /);
});

test('prints the message of a known error unchanged', () => {
  expect(formatErrorMessage(new UsageError('--from must be a time.'))).toBe('--from must be a time.');
});

test('errors of the key and of the connection name the variables to check', () => {
  const refused = new UpstreamError('markets', { failure: 'credential', reason: 'HTTP 401' });
  expect(formatErrorMessage(refused)).toMatch(/HTTP 401.*ODDSLAKE_API_KEY/);
  expect(formatErrorMessage(refused, true)).toMatch(/The other oddslake.*ODDSLAKE_FROM_API_KEY/);
  const away = new UpstreamError('markets', { failure: 'unreachable', reason: 'connection refused' });
  expect(formatErrorMessage(away)).toMatch(/connection refused.*ODDSLAKE_BASE_URL/);
});

test('errors of the key and of the connection name where the key and the address were set', () => {
  const origins = {
    baseUrl: 'upstream.base_url in lake.yaml:2',
    apiKey: 'key.txt (upstream.api_key_file in lake.yaml:3)',
  };
  const refused = new UpstreamError('markets', { failure: 'credential', reason: 'HTTP 401' });
  expect(formatErrorMessage(refused, false, null, origins)).toMatch(
    /Check key\.txt \(upstream\.api_key_file in lake\.yaml:3\)\.$/,
  );
  const away = new UpstreamError('markets', { failure: 'unreachable', reason: 'connection refused' });
  expect(formatErrorMessage(away, false, null, origins)).toMatch(
    /Check upstream\.base_url in lake\.yaml:2 and the network\.$/,
  );
  // The other oddslake has another key.
  expect(formatErrorMessage(refused, true, null, origins)).toMatch(/ODDSLAKE_FROM_API_KEY/);
});
