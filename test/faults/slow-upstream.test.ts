import { expect, onTestFinished, test } from 'vitest';
import { job as nightly } from '../../jobs/nightly.ts';
import { type OpenTransport, openTransport as openSystemWire, type Transport } from '../../src/client/transport.ts';
import { archiveFolder, contextOf } from '../collector/run/one-process.ts';
import { type Reply, type Script, startScripted } from '../collector/run/scripted-service.ts';
import { bomb, endless } from '../collector/run/wire-replies.ts';
import { addsUp, coverageOf, ticksOf } from '../e2e/lake.ts';

// Responses that are slow or large: up to the default maximum size, and endless ones.

const hourMs = 3_600_000;
const start = Date.UTC(2025, 5, 3, 3, 17);
const symbols = ['GOOD-1', 'GOOD-2', 'BAD'];
const memoryBytesMax = 700 * 1024 * 1024;

/** One byte now and then, as long as the client reads. */
const trickle: Reply = (response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  const timer = setInterval(() => response.write(' '), 50);
  response.on('close', () => clearInterval(timer));
};

/** Nothing, as long as the client waits. */
const stayIdle: Reply = () => {};

const megabytes = 1024 * 1024;

/** Deadline of requests for the bad symbol; all others have the usual one, so that a slow machine does not reach it. */
const badDeadlineMs = 500;
const openWire: OpenTransport = (options, clock) => {
  const [usual, bad] = [options.requestDeadlineMs, badDeadlineMs].map((requestDeadlineMs) =>
    openSystemWire({ ...options, requestDeadlineMs }, clock),
  ) as [Transport, Transport];
  return {
    get: (path, ...rest) => (path.includes('symbol=BAD&') ? bad : usual).get(path, ...rest),
    close: async () => void (await Promise.all([usual.close(), bad.close()])),
  };
};

test.each<[string, Reply, OpenTransport | undefined, RegExp]>([
  ['a gzip bomb of a gigabyte', bomb(1024 * megabytes), undefined, /more than 67108864 bytes/],
  ['a body without end', endless, undefined, /more than 67108864 bytes/],
  ['a body that trickles', trickle, openWire, /no complete response within 0.5 s/],
  ['silence', stayIdle, openWire, /no complete response within 0.5 s/],
])('%s fails only its own symbol and uses no more memory than one response may', async (_, reply, wire, reason) => {
  const box = await startScripted(start, symbols);
  const { output, remove } = archiveFolder();
  onTestFinished(async () => {
    await box.stop();
    remove();
  });
  const night = async (script: Script, ...settings: readonly string[]) => {
    box.script = script;
    const context = await contextOf(output, box.url, () => box.nowMs, ['source.first_lookback_days=1', ...settings]);
    return nightly.run({ ...context, openWire: wire }, { day: null });
  };
  expect(await night({})).toMatchObject({ exit_code: 0 });
  box.nowMs += 20 * hourMs;
  const before = process.memoryUsage.rss();
  let memoryMax = 0;
  const timer = setInterval(() => {
    memoryMax = Math.max(memoryMax, process.memoryUsage.rss());
  }, 10);
  const script: Script = { ticks: (honest, { symbol }) => (symbol === 'BAD' ? reply : honest) };
  const bad = await night(script, 'upstream.retry_attempts_max=3');
  clearInterval(timer);
  expect(bad).toMatchObject({ exit_code: 4, error: null, symbols: { planned: 3, done: 2, failed: 1 } });
  expect(addsUp(bad)).toBe(true);
  expect(bad.failures).toEqual([{ symbol: 'BAD', from: start, to: box.nowMs, reason: expect.stringMatching(reason) }]);
  expect(memoryMax - before).toBeLessThan(memoryBytesMax);
  for (const symbol of symbols.slice(0, 2)) {
    expect(ticksOf(output).get(symbol)).toEqual(box.truth(symbol, start - 24 * hourMs, box.nowMs));
  }
  expect(
    Math.max(
      ...coverageOf(output)
        .filter((row) => row.symbol === 'BAD')
        .map(({ to }) => to),
    ),
  ).toBe(start);
  box.nowMs += hourMs;
  expect(await night({})).toMatchObject({ exit_code: 0, failures: [] });
  for (const symbol of symbols) {
    expect(ticksOf(output).get(symbol)).toEqual(box.truth(symbol, start - 24 * hourMs, box.nowMs));
  }
});
