import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { type CliLogOptions, createLog } from '../../src/cli/log.ts';

/** A stream that stores written text. */
function sink(isTTY = false) {
  const written: string[] = [];
  const stream = new Writable({
    write(chunk, _, done) {
      written.push(String(chunk));
      done();
    },
  });
  return { stream: Object.assign(stream, { isTTY }), text: () => written.join('') };
}

async function logged(
  write: (log: Awaited<ReturnType<typeof createLog>>) => void,
  options: Partial<CliLogOptions> = {},
) {
  const { stream, text } = sink(options.stream?.isTTY);
  write(await createLog({ level: 'info', ...options, stream }));
  return text();
}

const terminal = { stream: sink(true).stream };

describe('without a terminal', () => {
  test('writes one JSON object per line with time, level, fields and message', async () => {
    const line = await logged((log) => log.warn({ symbol: 'A', runs: 5 }, 'symbol retired'));
    expect(line.endsWith('}\n')).toBe(true);
    expect(JSON.parse(line)).toEqual({
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      level: 'warn',
      symbol: 'A',
      runs: 5,
      msg: 'symbol retired',
    });
  });

  test('keeps the stack of an error', async () => {
    const line = await logged((log) => log.error({ err: new Error('broke') }, 'failed'));
    expect(JSON.parse(line).err).toMatchObject({ message: 'broke', stack: expect.stringContaining('log.test.ts') });
  });
});

test('writes no lines below the level, and none at silent', async () => {
  expect(await logged((log) => log.debug({}, 'small'))).toBe('');
  expect(await logged((log) => log.debug({}, 'small'), { level: 'debug' })).not.toBe('');
  expect(await logged((log) => log.error({}, 'great'), { level: 'silent' })).toBe('');
});

describe('on a terminal', () => {
  test('writes readable lines that clear a progress bar', async () => {
    const line = await logged((log) => log.info({ symbol: 'A B', ticks: 5, path: 'a/b.c' }, 'published'), terminal);
    expect(line.startsWith('\r\u001b[2K')).toBe(true);
    expect(stripVTControlCharacters(line)).toMatch(
      /^\r\d\d:\d\d:\d\d info {2}published {2}symbol="A B" ticks=5 path=a\/b\.c\n$/,
    );
  });

  test('prints the stack of an error below its line', async () => {
    const line = await logged((log) => log.error({ err: new Error('broke') }, 'failed'), terminal);
    expect(line).toMatch(/failed\nError: broke\n {4}at /);
  });

  test('replaces control characters from the upstream', async () => {
    const line = await logged((log) => {
      log.info({ symbol: '\u001b[2Jx', list: ['\u009b2J'] }, '\u001b]0;title\u0007\nnext');
    }, terminal);
    // The three escape codes of the log: clear line, colour, reset.
    expect(line.split('\u001b')).toHaveLength(1 + 3);
    expect(line).not.toContain('\u0007');
    expect(line).not.toContain('\u009b');
    expect(line.trim().split('\n')).toHaveLength(1);
  });
});

describe('the key', () => {
  const key = 'sesame"open';

  test.each([
    ['as a setting', { settings: { upstream: { apiKey: key } } }],
    ['as a header', { headers: { 'x-api-key': key } }],
    ['inside a text', { url: `https://example.org/?k=${key}` }],
    ['inside an error', { err: new Error(`refused ${key}`) }],
  ])('is redacted: %s', async (_, facts) => {
    for (const options of [{}, terminal]) {
      const text = await logged((log) => log.info(facts, `sent ${key}`), { ...options, secrets: [key] });
      expect(text).toContain('(hidden)');
      expect(text).not.toContain('sesame');
    }
  });

  test('is redacted by field name even if the value is not registered', async () => {
    const facts = { apiKey: 'k1k1', upstream: { api_key: 'k2k2' }, request: { headers: { 'x-api-key': 'k3k3' } } };
    expect(await logged((log) => log.info(facts, 'sent'))).not.toMatch(/k\dk\d/);
  });
});
