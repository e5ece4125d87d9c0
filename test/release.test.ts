import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { buildSite, findBrokenLinks } from '../bin/site.ts';
import { program } from './docs/program.ts';
import { folder } from './e2e/lake.ts';

// The workflow that publishes a release, its steps, and the site of the documentation.

const root = join(import.meta.dirname, '..');
const script = readFileSync(join(root, 'bin/release'), 'utf8');

interface Job {
  readonly needs?: string | readonly string[];
  readonly steps: readonly { readonly uses?: string; readonly run?: string }[];
}

const workflow = parse(readFileSync(join(root, '.github/workflows/release.yml'), 'utf8')) as {
  readonly on: unknown;
  readonly jobs: Readonly<Record<string, Job>>;
};
const jobs = Object.values(workflow.jobs);

const release = (args: readonly string[], env: Readonly<Record<string, string>> = {}) => {
  const { status, stderr } = spawnSync(join(root, 'bin/release'), args, {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  return { status, stderr };
};

test('the workflow publishes when a version is tagged, and runs the steps of the dry run in their order', () => {
  expect(workflow.on).toEqual({ push: { tags: ['v*'] } });
  const commands = jobs.flatMap(({ steps }) => steps.flatMap(({ run }) => run ?? []));
  expect(commands.length).toBeGreaterThan(2);
  const steps = commands.flatMap((command) => {
    const [path, ...names] = command.split(' ');
    expect(path).toBe('bin/release');
    return names;
  });
  const [, dryRun] = /^\[ "\$\{1:-\}" != --dry-run \].* set -- ([a-z ]+); \}$/m.exec(script)!;
  expect(steps).toEqual(dryRun!.split(' '));
  for (const step of steps) expect(script).toMatch(new RegExp(`^${step}\\(\\) \\{$`, 'm'));
});

test('each job of the workflow waits for the jobs before it, and each action has an exact version', () => {
  const names = Object.keys(workflow.jobs);
  expect(jobs.map(({ needs = [] }) => [needs].flat())).toEqual(names.map((_, i) => names.slice(0, i)));
  const actions = jobs.flatMap(({ steps }) => steps.flatMap(({ uses }) => uses ?? []));
  expect(actions.length).toBeGreaterThan(5);
  for (const action of actions) expect(action).toMatch(/^[\w-]+\/[\w-]+@(v\d+\.\d+\.\d+|[0-9a-f]{40})$/);
});

test('a tag of another version and an unknown step are refused', () => {
  expect(release(['check'], { GITHUB_REF_NAME: 'v9.9.9' })).toEqual({
    status: 1,
    stderr: expect.stringContaining('the tag v9.9.9 is not v'),
  });
  expect(release(['anything']).status).toBe(1);
  expect(release([]).status).toBe(2);
});

test('the site has every page, texts for language models, and no broken link', () => {
  const site = folder();
  const pages = buildSite(site);
  expect(pages).toEqual(expect.arrayContaining(['README.md', 'docs/FORMAT.md', 'CHANGELOG.md']));
  expect(findBrokenLinks(site)).toEqual([]);
  expect(readFileSync(join(site, 'docs/FORMAT.html'), 'utf8')).toContain('<h3 id="coverage">coverage</h3>');
  const list = readFileSync(join(site, 'llms.txt'), 'utf8');
  expect(list).toMatch(/^# oddslake\n\n> /);
  const listed = [...list.matchAll(/\]\(([^)]+)\)/g)].map(([, path]) => path!);
  expect(listed.filter((path) => !existsSync(join(site, path)))).toEqual([]);
  expect(listed).toContain('docs/FORMAT.md');
  const full = readFileSync(join(site, 'llms-full.txt'), 'utf8');
  for (const command of program.commands) expect(full).toContain(command.name());
  writeFileSync(join(site, 'docs/FORMAT.html'), '<a href="gone.html">x</a><a href="READING.html#gone">y</a>');
  expect(findBrokenLinks(site)).toEqual(
    expect.arrayContaining(['docs/FORMAT.html: gone.html', 'docs/FORMAT.html: READING.html#gone']),
  );
});
