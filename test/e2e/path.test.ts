import { expect, test } from 'vitest';
import {
  access,
  coverageOf,
  expectDone,
  findWrongWindows,
  fixedDay,
  fixedNow,
  folder,
  hashes,
  jobArgs,
  launch,
  manifestOf,
  sandbox,
  ticksOf,
  waitUntilReady,
} from './lake.ts';
import { sha256 } from './served-archive.ts';

// The one end-to-end test of `make test`: the launcher, real processes, a real archive. The others belong to `make
// check`.

/** Runs the program as users do, and expects exit code 0. */
async function oddslake(args: readonly string[], url = ''): Promise<string> {
  const { stdout } = await expectDone(launch(args, access(url)).ended);
  return stdout;
}

test('an archive is collected, read, verified and served', async () => {
  const box = await sandbox({ seed: 5, nowMs: fixedNow, markets: 8, ticksPerDay: 200 });
  const lake = folder();
  const night = jobArgs('nightly', lake, '--date', fixedDay);
  const at = ['--output', lake, '--json'];

  // Collects a night: the published ticks are the service's.
  await oddslake(night, box.url);
  expect(findWrongWindows(lake, box)).toEqual([]);
  const expected = coverageOf(lake).reduce(
    (sum, { symbol, from, to }) => sum + box.readTruth(symbol, { from, to }).t.length,
    0,
  );
  expect(expected).toBeGreaterThan(1000);

  // The same night again changes no byte.
  const published = hashes(lake, 'ticks', 'candles_*', 'coverage', 'symbols');
  await oddslake(night, box.url);
  expect(hashes(lake, 'ticks', 'candles_*', 'coverage', 'symbols')).toEqual(published);

  // It can be read, and every file is as published. A verify is a run too, so status is called before it.
  const status = JSON.parse(await oddslake(['status', ...at]));
  const [counted, verified, key] = (
    await Promise.all([
      oddslake(['sql', 'select count(*) as ticks from ticks', ...at]),
      oddslake(['verify', ...at]),
      oddslake(['keys', 'create', '--name', 'path', ...at]),
    ])
  ).map((text) => JSON.parse(text));
  const { generation, datasets } = manifestOf(lake);
  expect(status).toMatchObject({
    generation,
    published: { ticks: expected },
    last_runs: [{ job: 'nightly', exit_code: 0 }],
  });
  expect(counted).toEqual([{ ticks: expected }]);
  expect(verified).toMatchObject({ generation, findings: [] });

  // It is served: ticks as JSON, and files byte for byte.
  const service = await waitUntilReady(launch(['serve', ...at, '--set', 'service.port=0']));
  const { url } = JSON.parse(service.first) as { url: string };
  const ask = (path: string) => fetch(`${url}${path}`, { headers: { authorization: `Bearer ${key.key}` } });
  const [symbol, ticks] = [...ticksOf(lake)][0]!;
  const response = await ask(`/api/v1/ticks?symbol=${encodeURIComponent(symbol)}&from=${ticks[0]!.t}&limit=20`);
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({ symbol, ticks: ticks.slice(0, 20) });
  const [file] = datasets.ticks.files;
  const bulk = await ask(`/api/v1/export/files/${file!.path.replace('date=', '')}`);
  expect(bulk.status).toBe(200);
  expect(sha256(new Uint8Array(await bulk.arrayBuffer()))).toBe(file!.sha256);
  service.child.kill('SIGTERM');
  await expectDone(service.ended);
});
