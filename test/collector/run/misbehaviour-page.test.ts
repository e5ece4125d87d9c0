import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { misbehaviours } from './misbehaviour.ts';
import { marketsMisbehaviours } from './misbehaviour-markets.ts';

const page = new URL('../../../docs/BAD-INPUT.md', import.meta.url);

const table = (rows: readonly { readonly does: string; readonly happens: string }[]): string =>
  ['| the upstream sends | what becomes of it |', '| --- | --- |']
    .concat(rows.map(({ does, happens }) => `| ${does.replaceAll('|', '\\|')} | ${happens.replaceAll('|', '\\|')} |`))
    .join('\n');

const pageText = (): string => `# What becomes of bad input

Each row is played by a test: a good night, a night with the fault, a healed one, and at the end the archive holds the truth
(\`test/collector/run/misbehaviour.test.ts\`, \`test/collector/run/misbehaviour-markets.test.ts\`, and \`test/faults/slow-upstream.test.ts\` for bodies
without an end). Whatever is set aside is counted, \`fetched = accepted + duplicates + conflicts + quarantined\`, and lies as
received in \`.oddslake/quarantine\`. Written by \`UPDATE_DOCS=1 npx vitest run test/collector/run/misbehaviour-page.test.ts\`.

## Ticks of one symbol

${table(misbehaviours)}

## Lists of markets

${table(marketsMisbehaviours)}
`;

test('docs/BAD-INPUT.md has the rows that are tested', () => {
  const text = pageText();
  if (process.env.UPDATE_DOCS === '1') writeFileSync(page, text);
  expect(readFileSync(page, 'utf8')).toBe(text);
});
