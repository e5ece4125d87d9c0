import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { readClientFiles } from '../src/server/web/catalogue.ts';

/*
 * Builds the JavaScript of the npm package. It joins the modules of `src` and `jobs` to a few chunks, because Node needs up to half a
 * millisecond for each file that it loads. Dependencies stay packages of their own.
 *
 * All chunks are in one folder, two below the root like `src/cli`, so that a path relative to `import.meta.url` leads to the same file
 * as in a checkout, and the module of a thread is beside the chunk that starts it.
 */

const root = join(import.meta.dirname, '..');

/** The program, the modules that the package exports, and those that threads run (`resolveThreadEntry`). */
export const entries: Readonly<Record<string, string>> = {
  main: 'bin/main.ts',
  'library-archive': 'src/library/archive.ts',
  'library-backtest': 'src/library/backtest.ts',
  'library-client': 'src/library/client.ts',
  'library-sandbox': 'src/library/sandbox.ts',
  'backtest-job-thread': 'src/backtest/run/backtest-job-thread.ts',
  'batch-thread': 'src/backtest/run/batch-thread.ts',
  'hash-thread': 'src/archive/integrity/hash-thread.ts',
  'merge-workers': 'src/collector/steps/merge-workers.ts',
  'page-workers': 'src/collector/import/page-workers.ts',
};

/**
 * Chunks by the modules that they begin with: a chunk has these and what they import, unless an earlier one has it. A command then
 * loads a few files. Other modules are split by what imports them. None of these may import a package that is slow to load, or await
 * at its top level.
 */
const chunks: Readonly<Record<string, readonly string[]>> = {
  /** What each command needs, and all that the help needs. */
  start: ['src/cli/main.ts'],
  /** What commands need that open an archive. */
  archive: [
    'src/cli/command-context.ts',
    'src/cli/shared-options.ts',
    'src/cli/run-job.ts',
    'src/cli/log.ts',
    'src/cli/format-archive.ts',
    'src/settings/load.ts',
    'src/context/open-configured.ts',
    'src/archive/read/status.ts',
  ],
  /** What jobs and their threads need. */
  job: [
    'src/cli/print-summary.ts',
    'src/collector/job.ts',
    'src/collector/import/import-step.ts',
    'src/collector/steps/publish-step.ts',
  ],
};

/** Builds the JavaScript of the package into a folder, which is emptied before. */
export async function build(folder: string): Promise<void> {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { dependencies: object };
  const packages = Object.keys(manifest.dependencies);
  rmSync(folder, { recursive: true, force: true });
  const bundle = await rolldown({
    cwd: root,
    input: { ...entries },
    platform: 'node',
    external: (id) => packages.some((name) => id === name || id.startsWith(`${name}/`)),
    // It concerns imports that are delayed only in a checkout.
    checks: { ineffectiveDynamicImport: false },
  });
  await bundle.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    codeSplitting: {
      groups: Object.entries(chunks).map(([name, modules], i, all) => {
        const paths = new Set(modules.map((path) => join(root, path)));
        return { name, priority: all.length - i, test: (id: string) => paths.has(id) };
      }),
    },
  });
  await bundle.close();
  mkdirSync(join(folder, 'client'));
  for (const [name, bytes] of readClientFiles()) writeFileSync(join(folder, 'client', name), bytes);
}

if (process.argv[1] === import.meta.filename) await build(join(root, 'dist/program'));
