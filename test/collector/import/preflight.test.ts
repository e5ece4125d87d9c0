import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { listImportFiles } from '../../../src/collector/import/files.ts';
import { defaultRowRules } from '../../../src/collector/import/import-rows.ts';
import { checkRows } from '../../../src/collector/import/preflight.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { scratchFolder } from '../../archive/scratch.ts';

test('checks JSON lines without the reader of tables, and CSV with it', async () => {
  const folder = scratchFolder();
  const put = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return listImportFiles([join(folder, name)], null, Date.now()).files[0]!;
  };
  const { source } = await loadSettings({ env: {}, cwd: folder });
  const rules = { datasets: null, rows: defaultRowRules, renames: [], filters: [], paths: source };
  const open = () => Promise.reject(new Error('opened'));
  const lines = put('quotes.ndjson', '{"symbol":"A","t":1783771200000,"bid":0.4,"ask":0.6}\n');
  expect(await checkRows(lines, open, rules)).toMatchObject({ datasets: ['quotes'], rows: null });
  const table = put('quotes.csv', 'symbol,t,bid,ask\nA,1783771200000,0.4,0.6\n');
  await expect(checkRows(table, open, rules)).rejects.toThrow('opened');
});
