import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { misbehaviours } from './misbehaviour.ts';
import { marketsMisbehaviours } from './misbehaviour-markets.ts';

const page = new URL('../../../docs/BAD-INPUT.md', import.meta.url);

const table = (rows: readonly { readonly does: string; readonly happens: string }[]): string =>
  ['| upstream sends | result |', '| --- | --- |']
    .concat(rows.map(({ does, happens }) => `| ${does.replaceAll('|', '\\|')} | ${happens.replaceAll('|', '\\|')} |`))
    .join('\n');

const pageText = (): string => `# Bad input

A test runs each row: a good night, a night with the fault, a good night again. At the end the archive has the true ticks
(\`test/collector/run/misbehaviour.test.ts\`, \`test/collector/run/misbehaviour-markets.test.ts\`, and \`test/faults/slow-upstream.test.ts\` for endless
bodies). Unusable input is quarantined as received in \`.oddslake/quarantine\` and counted: \`fetched = accepted + duplicates +
conflicts + quarantined\`. Written by \`UPDATE_DOCS=1 npx vitest run test/collector/run/misbehaviour-page.test.ts\`.

## Ticks of one symbol

${table(misbehaviours)}

## Lists of markets

${table(marketsMisbehaviours)}
`;

test('docs/BAD-INPUT.md lists the tested rows', () => {
  const text = pageText();
  if (process.env.UPDATE_DOCS === '1') writeFileSync(page, text);
  expect(readFileSync(page, 'utf8')).toBe(text);
});
