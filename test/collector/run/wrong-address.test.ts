import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { scriptedLake } from './one-process.ts';

test('a wrong path in the address is named with the line that has it', async () => {
  const now = Date.UTC(2025, 5, 10, 3, 17);
  const { box, output, contextAt } = await scriptedLake(now, ['A']);
  box.script = { markets: () => (response) => void response.writeHead(404).end('{"detail":"no such path"}') };
  const cwd = scratchFolder();
  const config = join(cwd, 'lake.yaml');
  writeFileSync(config, `upstream:\n  api_key: key\n  base_url: ${box.url}\n`);
  const context = await contextAt(now);
  const settings = await loadSettings({ env: {}, cwd, output, config, set: ['report.nightly=false'] });
  const argv = ['nightly', '--config', 'lake.yaml'];
  const summary = await nightly.run({ ...context, settings, argv }, { day: null });
  expect(summary).toMatchObject({ exit_code: 4, requests: 2 });
  expect(summary.failures).toEqual([
    {
      symbol: null,
      from: null,
      to: null,
      reason: expect.stringContaining(`The service at ${box.url} has no market lists (HTTP 404`),
    },
  ]);
  expect(summary.failures[0]!.reason).toMatch(/Check the path in upstream\.base_url in \S*lake\.yaml:3\.$/);
  expect(summary.verdict).toMatchObject({
    text: expect.stringContaining(`has no market lists (HTTP 404`),
    command: 'oddslake nightly --config lake.yaml',
  });
});
