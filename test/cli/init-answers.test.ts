import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { collectAnswers } from '../../src/cli/init-config.ts';
import { parseTextLayer } from '../../src/settings/source.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'oddslake-init-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Gives these answers in order; further questions fail the test. */
function person(...answers: string[]) {
  const asked: string[] = [];
  const told: string[] = [];
  return {
    asked,
    told,
    async ask(question: string) {
      asked.push(question);
      const answer = answers.shift();
      if (answer === undefined) throw new Error(`asked too much: ${question}`);
      return answer;
    },
    print: (text: string) => void told.push(text),
  };
}

const url = parseTextLayer('upstream.base_url', 'https://example.org', '--base-url');

describe('on a terminal', () => {
  test('asks for missing settings with defaults, and writes only chosen ones', async () => {
    const someone = person('https://example.org/', '', '', '', '');
    const { chosen, settings } = await collectAnswers('/base', [], someone);
    expect(someone.asked).toEqual([
      'URL of the market data service, e.g. https://example.org: ',
      'File that holds the market data key [none, from ODDSLAKE_API_KEY]: ',
      'Requests per second that the key allows [5]: ',
      'Folder of the archive [output/archive]: ',
      'Name of the service in the archive [https://example.org]: ',
    ]);
    expect([...chosen]).toEqual([
      ['upstream.base_url', 'https://example.org/'],
      ['archive.output', 'output/archive'],
    ]);
    expect(settings.archive.output).toBe('/base/output/archive');
  });

  test('repeats a question after an invalid answer, with the reason', async () => {
    const base = folder();
    writeFileSync(join(base, 'key'), 'secret-1234\n');
    const someone = person('', 'ftp://x', ' https://example.org ', 'nokey', 'key', '0', '2.5', 'lake', 'box');
    const { chosen, settings } = await collectAnswers(base, [], someone);
    expect(someone.told).toEqual([
      'A value is required.',
      expect.stringMatching(/^your answer: upstream\.base_url is "ftp:\/\/x": expected an http or https URL/),
      expect.stringMatching(/nokey: there is no such file$/),
      'your answer: upstream.requests_per_second is 0: expected a number from 0.001 to 100000',
    ]);
    expect(Object.fromEntries(chosen)).toEqual({
      'upstream.base_url': 'https://example.org',
      'upstream.api_key_file': 'key',
      'upstream.requests_per_second': 2.5,
      'archive.output': 'lake',
      'source.name': 'box',
    });
    expect(settings.upstream.apiKey).toBe('secret-1234');
  });

  test('does not ask for given settings, nor for a key file if the key is given', async () => {
    const key = parseTextLayer('upstream.api_key', 'secret-1234', 'ODDSLAKE_API_KEY');
    const someone = person('', '', '');
    const { chosen } = await collectAnswers('/base', [url, key], someone);
    expect(someone.asked).toHaveLength(3);
    expect([...chosen.keys()]).toEqual(['upstream.base_url', 'archive.output']);
  });
});

describe('without a terminal', () => {
  test('needs only the address of the service', async () => {
    const rate = parseTextLayer('upstream.requests_per_second', '20', '--rate');
    const { chosen } = await collectAnswers('/base', [url, rate], null);
    expect(Object.fromEntries(chosen)).toEqual({
      'upstream.base_url': 'https://example.org',
      'upstream.requests_per_second': 20,
      'archive.output': 'output/archive',
    });
  });

  test('names a missing setting', async () => {
    await expect(collectAnswers('/base', [], null)).rejects.toThrow(/--base-url.*ODDSLAKE_BASE_URL/);
  });
});
