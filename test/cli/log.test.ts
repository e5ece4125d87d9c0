import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { type CliLogOptions, createLog } from '../../src/cli/log.ts';

/** A stream that keeps what is written. */
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

describe('away from a terminal', () => {
  test('a line is one JSON object with time, level, facts and message', async () => {
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

  test('an error keeps its stack', async () => {
    const line = await logged((log) => log.error({ err: new Error('broke') }, 'failed'));
    expect(JSON.parse(line).err).toMatchObject({ message: 'broke', stack: expect.stringContaining('log.test.ts') });
  });
});

test('lines below the level are not written, and silent writes none', async () => {
  expect(await logged((log) => log.debug({}, 'small'))).toBe('');
  expect(await logged((log) => log.debug({}, 'small'), { level: 'debug' })).not.toBe('');
  expect(await logged((log) => log.error({}, 'great'), { level: 'silent' })).toBe('');
});

describe('on a terminal', () => {
  test('a line is readable and starts at the left of its own line', async () => {
    const line = await logged((log) => log.info({ symbol: 'A B', ticks: 5, path: 'a/b.c' }, 'published'), terminal);
    expect(line.startsWith('\r\u001b[2K')).toBe(true);
    expect(stripVTControlCharacters(line)).toMatch(
      /^\r\d\d:\d\d:\d\d info {2}published {2}symbol="A B" ticks=5 path=a\/b\.c\n$/,
    );
  });

  test('an error stands below its line with its stack', async () => {
    const line = await logged((log) => log.error({ err: new Error('broke') }, 'failed'), terminal);
    expect(line).toMatch(/failed\nError: broke\n {4}at /);
  });

  test('what an upstream sent cannot steer it', async () => {
    const line = await logged((log) => {
      log.info({ symbol: '\u001b[2Jx', list: ['\u009b2J'] }, '\u001b]0;title\u0007\nnext');
    }, terminal);
    // The three are ours: clear the line, colour, colour off.
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
  ])('is never written: %s', async (_, facts) => {
    for (const options of [{}, terminal]) {
      const text = await logged((log) => log.info(facts, `sent ${key}`), { ...options, secrets: [key] });
      expect(text).toContain('(hidden)');
      expect(text).not.toContain('sesame');
    }
  });

  test('is hidden by its name even where the log was not told it', async () => {
    const facts = { apiKey: 'k1k1', upstream: { api_key: 'k2k2' }, request: { headers: { 'x-api-key': 'k3k3' } } };
    expect(await logged((log) => log.info(facts, 'sent'))).not.toMatch(/k\dk\d/);
  });
});
