import { expect, test } from 'vitest';
import { problemCodes, problemKinds, toProblemType } from '../../src/contract/problem.ts';
import { opened } from '../archive/scratch.ts';
import { serving } from '../server/serving.ts';
import { expectUpToDate } from './kept-current.ts';

/** The text of docs/PROBLEMS.md. */
const renderPage = (): string =>
  [
    '# Problems',
    '',
    'Every error of the service is `application/problem+json` ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)). `code`',
    'names the kind of error, and `type` is the URI of its description on the service: `/docs/problems#` and the code. Codes',
    'do not change; new ones may be added, so treat an unknown code like the default code of its status, the first one',
    'listed here. `title` and `detail` are for people and may change.',
    '',
    '| code | status | meaning | what to do |',
    '| --- | --- | --- | --- |',
    ...problemCodes.map((code) => {
      const { status, meaning, action } = problemKinds[code];
      return `| \`${code}\` | ${status} | ${meaning} | ${action} |`;
    }),
    '',
  ].join('\n');

test('docs/PROBLEMS.md lists every problem code', () => expectUpToDate('docs/PROBLEMS.md', renderPage()));

test('the type of every problem leads to its description on the service, without a credential', async () => {
  const { ask, url } = await serving(opened());
  for (const code of problemCodes) {
    const { pathname, hash } = new URL(toProblemType(code), url);
    expect(hash).toBe(`#${code}`);
    const { status, meaning, action } = problemKinds[code];
    const response = await ask(pathname, { headers: { authorization: '' } });
    expect(response.status).toBe(200);
    const html = await response.text();
    const [section = ''] = html.slice(html.indexOf(`<section id="${code}">`)).split('</section>');
    const read = section
      .replace(/<\/?code>/g, '`')
      .replaceAll('&#39;', "'")
      .replaceAll('&lt;', '<');
    for (const text of [`\`${code}\` (${status})`, meaning, action]) expect(read).toContain(text);
  }
});

test('codes are plain words, and every status of the document has a default code', async () => {
  expect(problemCodes.filter((code) => !/^[a-z]+(_[a-z]+)*$/.test(code))).toEqual([]);
  const { app } = await serving(opened());
  const { components } = app.swagger() as unknown as { components: { responses: Record<string, object> } };
  const statuses = Object.values(components.responses).map((response) => {
    const { code, status } = (response as { content: Record<string, { example: { code: string; status: number } }> })
      .content['application/problem+json']!.example;
    expect(problemKinds[code as keyof typeof problemKinds].status).toBe(status);
    return status;
  });
  expect([...new Set(problemCodes.map((code) => problemKinds[code].status))].sort()).toEqual(statuses.sort());
});
