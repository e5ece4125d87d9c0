import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import type { Log } from '../../src/base/ports.ts';
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

async function logged(write: (log: Log) => void, options: Partial<CliLogOptions> = {}) {
  const { stream, text } = sink(options.stream?.isTTY);
  if (options.stream?.columns !== undefined) Object.assign(stream, { columns: options.stream.columns });
  write(createLog({ level: 'info', ...options, stream }));
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

describe('the format', () => {
  const write = (log: Log) => log.warn({ symbol: 'A' }, 'symbol suspended');

  test('text writes one plain line with the date without a terminal', async () => {
    expect(await logged(write, { format: 'text' })).toMatch(
      /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warn {2}symbol suspended {2}symbol=A\n$/,
    );
    expect(await logged((log) => log.info({ text: 'x'.repeat(200) }, 'a b'), { format: 'text' })).toMatch(/^[^\n]*\n$/);
  });

  test('json writes JSON on a terminal too', async () => {
    expect(JSON.parse(await logged(write, { ...terminal, format: 'json' }))).toMatchObject({
      level: 'warn',
      symbol: 'A',
    });
  });

  test('auto is text on a terminal, and JSON otherwise', async () => {
    expect(stripVTControlCharacters(await logged(write, { ...terminal, format: 'auto' }))).toMatch(/^\r\d\d:.* warn /);
    expect(JSON.parse(await logged(write, { format: 'auto' }))).toMatchObject({ level: 'warn' });
  });

  test('long lines continue below the message, within the width of the terminal', async () => {
    const narrow = { stream: Object.assign(sink(true).stream, { columns: 60 }), colour: false, draws: false };
    const facts = {
      symbol: 'KXBTC-26DEC0204-T28',
      from: '2026-11-19T00:00:00Z',
      to: '2026-11-20T00:00:00Z',
      reason: 'late',
    };
    const lines = (await logged((log) => log.warn(facts, 'a window could not be fetched'), narrow))
      .trimEnd()
      .split('\n');
    expect(lines.length).toBe(4);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(60);
    expect(lines.slice(1).every((line) => /^ {15}\S/.test(line))).toBe(true);
    expect(lines.map((line) => line.trim()).join(' ')).toContain('reason=late');
  });
});

test('a secret with spaces is redacted where a line is wrapped', async () => {
  const secret = 'open sesame and all of the other doors of the mountain';
  const narrow = { stream: Object.assign(sink(true).stream, { columns: 40 }), secrets: [secret] };
  const text = await logged((log) => log.info({ header: `key ${secret}` }, 'sent'), narrow);
  expect(text).toContain('(hidden)');
  expect(text).not.toMatch(/sesame|mountain/);
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
