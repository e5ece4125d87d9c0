import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { archiveFolder, contextOf } from './one-process.ts';
import { startScripted } from './scripted-service.ts';

test('a wrong path in the address is named with the line that has it', async () => {
  const now = Date.UTC(2025, 5, 10, 3, 17);
  const box = await startScripted(now, ['A']);
  onTestFinished(() => box.stop());
  box.script = { markets: () => (response) => void response.writeHead(404).end('{"detail":"no such path"}') };
  const { output, remove } = archiveFolder();
  onTestFinished(remove);
  const folder = archiveFolder();
  onTestFinished(folder.remove);
  const config = join(folder.output, 'lake.yaml');
  writeFileSync(config, `upstream:\n  api_key: key\n  base_url: ${box.url}\n`);
  const context = await contextOf(output, box.url, () => now);
  const settings = await loadSettings({ env: {}, cwd: folder.output, output, config, set: ['report.nightly=false'] });
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
