import { dirname, join } from 'node:path';
import { parseSync } from 'rolldown/utils';

/** The direction of imports and what only some rooms may do, checked on text: `violations` is what a test expects none of. */

/** Rooms by level, lowest first: a room imports from lower levels only. */
const levels = [
  ['src/base', 'config'],
  ['src/settings', 'src/contract'],
  ['src/archive', 'src/client'],
  ['src/metrics', 'src/context', 'src/bucket'],
  ['src/backtest'],
  ['src/report'],
  ['src/collector', 'src/sandbox'],
  ['src/server'],
  ['src/doctor', 'src/library'],
  ['src/cli'],
  ['jobs'],
  ['bin'],
];

/** Parts of a room by level, lowest first; '' is what stands in the room itself. Parts of one level know nothing of each other. */
const parts: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'src/archive': [
    ['disk'],
    ['format'],
    ['parquet', 'completeness'],
    ['journal'],
    [''],
    ['raw', 'publish'],
    ['read', 'integrity'],
    ['query'],
  ],
  'src/backtest': [['strategy'], ['engine'], [''], ['data'], ['run']],
  'src/collector': [
    ['proof'],
    ['paging'],
    ['order-books', 'rechecks'],
    ['run'],
    ['steps'],
    ['import'],
    ['notifications', 'schedule'],
    [''],
  ],
  'src/report': [['data'], ['']],
  'src/server': [
    ['workspace', 'web/client'],
    ['http'],
    ['jobs', 'auth'],
    ['exports', 'live', 'history', 'health', 'web'],
    ['objects'],
    [''],
  ],
};

const soleImporters: Readonly<Record<string, string>> = {
  'node:sqlite': 'src/archive/journal',
  'parquet-wasm': 'src/archive/parquet',
  'apache-arrow': 'src/archive/parquet',
  '@duckdb/node-api': 'src/archive/query',
  '@aws-sdk': 'src/bucket',
  undici: 'src/client',
  'p-queue': 'src/client',
  croner: 'src/settings',
  tinypool: 'src/base/worker-threads.ts',
  fastify: 'src/server',
  '@fastify': 'src/server',
  'prom-client': 'src/metrics',
  negotiator: 'src/server',
  uplot: 'src/server/web',
  kysely: 'src/server/workspace',
  pg: 'src/server/workspace',
  jose: 'src/server/workspace',
  '@observablehq/plot': 'src/report',
  linkedom: 'src/report',
  rolldown: 'bin/bundle.ts',
  marked: 'bin/site.ts',
};

/** What may stand in one place only: the room or file, and the text. */
const soleUsers: readonly (readonly [place: string, text: string])[] = [
  ['src/settings', 'process.env'],
  ['src/base/system.ts', 'Date.now('],
  ['src/base/system.ts', 'Math.random('],
];

const linesMax = 450;

/** Every breach of the structure in files given by their path from the project's root, one sentence each. */
export function violations(files: ReadonlyMap<string, string>): string[] {
  return [...files].flatMap(([path, text]) => [
    ...nameViolations(path, text),
    ...importsOf(text).flatMap((specifier) => importViolations(path, specifier)),
    ...soleUsers.flatMap(([place, used]) =>
      text.includes(used) && !isWithin(path, place) ? [`${path} uses ${used} which only ${place} may`] : [],
    ),
  ]);
}

function nameViolations(path: string, text: string): string[] {
  const lines = text.trimEnd().split('\n').length;
  const vague = /(^|\/)(utils?|helpers?|common)(\/|\.ts$)/.exec(path);
  return [
    ...(levelOf(path) < 0 || partLevel(path) < 0 ? [`${path} stands in no known room`] : []),
    ...(vague === null ? [] : [`${path} is named ${vague[2]}, which says nothing`]),
    ...(lines > linesMax ? [`${path} has ${lines} lines, more than ${linesMax}`] : []),
  ];
}

function importViolations(path: string, specifier: string): string[] {
  if (!specifier.startsWith('.')) {
    const name = Object.keys(soleImporters).find((name) => specifier === name || specifier.startsWith(`${name}/`));
    const owner = name === undefined ? undefined : soleImporters[name];
    return owner === undefined || isWithin(path, owner) ? [] : [`${path} imports ${name} which only ${owner} may`];
  }
  const target = new URL(specifier, `file:///${path}`).pathname.slice(1);
  if (roomOf(path) === roomOf(target))
    return mayImport(path, target) ? [] : [`${path} imports ${target}, a part above`];
  return levelOf(target) < levelOf(path) && levelOf(target) >= 0
    ? []
    : [`${path} imports ${target} against the direction`];
}

/**
 * Specifiers of `import … from`, `export … from`, `import '…'`, `import('…')`, `require('…')`, `import.meta.resolve('…')`
 * and `new URL('…', import.meta.url)`.
 */
export function importsOf(text: string): string[] {
  const patterns = [
    /(?:^|[\s;}])(?:import|export)\b[^'"`;()]*?\bfrom\s*['"]([^'"]+)['"]/g,
    /(?:^|[\s;}])import\s*['"]([^'"]+)['"]/g,
    /\bimport\s*\(\s*['"`]([^'"`]+)['"`]/g,
    /\brequire\s*\(\s*['"`]([^'"`]+)['"`]/g,
    /\bimport\.meta\.resolve\s*\(\s*['"`]([^'"`]+)['"`]/g,
    /\bnew URL\(\s*['"]([^'"]+\.[jt]s)['"]\s*,\s*import\.meta\.url/g,
  ];
  return patterns.flatMap((pattern) => [...text.matchAll(pattern)].map(([, specifier]) => specifier!));
}

/** Whether a file is, or stands in, the file or folder named. */
const isWithin = (path: string, place: string): boolean => path === place || path.startsWith(`${place}/`);

/** `src/<room>`, a file directly in src, `jobs` or `bin`. */
function roomOf(path: string): string {
  const [top, room] = path.split('/');
  return top === 'src' ? `${top}/${room}` : top!;
}

const levelOf = (path: string): number => levels.findIndex((rooms) => rooms.includes(roomOf(path)));

/** Folder of a file within its room, '' for none. */
const partOf = (path: string): string => path.split('/').slice(2, -1).join('/');

const partLevel = (path: string): number => {
  const levels = parts[roomOf(path)];
  return levels === undefined ? 0 : levels.findIndex((level) => level.includes(partOf(path)));
};

/** Whether a file may know another of its room. */
const mayImport = (path: string, target: string): boolean =>
  parts[roomOf(path)] === undefined || partOf(path) === partOf(target) || partLevel(target) < partLevel(path);

/** Files of which each names the next, by types too, and the last one the first; null if there are none. */
export function findCircle(files: ReadonlyMap<string, string>): string[] | null {
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]): string[] | null => {
    if (trail.includes(path)) return trail.slice(trail.indexOf(path));
    if (done.has(path)) return null;
    for (const specifier of importsOf(files.get(path)!)) {
      const target = join(dirname(path), specifier);
      const found = specifier.startsWith('.') && files.has(target) ? visit(target, [...trail, path]) : null;
      if (found !== null) return found;
    }
    done.add(path);
    return null;
  };
  for (const path of files.keys()) {
    const found = visit(path, []);
    if (found !== null) return found;
  }
  return null;
}

/** Sources that no other one names, by import or as the entry of a thread: what is left over of something. */
export function leftOver(files: ReadonlyMap<string, string>): string[] {
  const named = new Set(
    [...files].flatMap(([path, text]) =>
      [...text.matchAll(/['"](\.{1,2}\/[^'"\n]+?)(?:\.ts)?['"]/g)].map(([, at]) => `${join(dirname(path), at!)}.ts`),
    ),
  );
  // Browsers load the page's own one.
  named.add('src/server/web/client/main.ts');
  named.add('src/server/web/client/docs.ts');
  named.add('src/server/web/client/first-view.ts');
  return [...files.keys()].filter(
    (path) =>
      path.startsWith('src/') && !path.startsWith('src/library/') && !path.endsWith('.d.ts') && !named.has(path),
  );
}

/**
 * Exports of src that no other file names, as `path name`. A name counts as used by a file that names the path of its module
 * and has the name anywhere, and a function also by its name as text, as worker threads call it. The package's interface,
 * `src/library`, is for others to use.
 */
export function listUnusedExports(files: ReadonlyMap<string, string>): string[] {
  const importers = new Map<string, string[]>();
  const texts = [...files.values()];
  for (const [path, text] of files)
    for (const target of listNamedFiles(path, text)) importers.set(target, [...(importers.get(target) ?? []), text]);
  const pattern = /^export (?:async )?(?:const|let|function\*?|class|interface|type) (\w+)/gm;
  return [...files]
    .filter(([path]) => path.startsWith('src/') && !path.startsWith('src/library/'))
    .flatMap(([path, text]) =>
      [...text.matchAll(pattern)]
        .map(([, name]) => name!)
        .filter((name) => {
          const word = new RegExp(`\\b${name}\\b`);
          return (
            !(importers.get(path) ?? []).some((one) => word.test(one)) &&
            !texts.some((one) => one.includes(`'${name}'`))
          );
        })
        .map((name) => `${path} ${name}`),
    );
}

/** The files that a file names by a relative path, with or without `.ts`. */
const listNamedFiles = (path: string, text: string): string[] =>
  [...text.matchAll(/['"`](\.{1,2}\/[^'"`\n]+?)(?:\.ts)?['"`]/g)].map(([, at]) => `${join(dirname(path), at!)}.ts`);

/** The functions of a file that have more than `linesMax` lines, with their numbers of lines. */
export function listLongFunctions(path: string, text: string, linesMax: number): { name: string; lines: number }[] {
  const found: { name: string; lines: number }[] = [];
  const visit = (node: unknown, name: string): void => {
    if (Array.isArray(node)) {
      for (const one of node) visit(one, name);
      return;
    }
    if (typeof node !== 'object' || node === null) return;
    const { type, id, key, body, start, end } = node as SyntaxNode;
    const own = id?.name ?? key?.name ?? name;
    if (/^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(type ?? '') && body) {
      const lines = text.slice(start, end).split('\n').length;
      if (lines > linesMax) found.push({ name: own, lines });
    }
    for (const value of Object.values(node)) visit(value, own);
  };
  visit(parseSync(path, text).program, path);
  return found;
}

/** What is read of a node of the syntax tree. */
interface SyntaxNode {
  readonly type?: string;
  readonly id?: { readonly name?: string } | null;
  readonly key?: { readonly name?: string };
  readonly body?: unknown;
  readonly start: number;
  readonly end: number;
}
