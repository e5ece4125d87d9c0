import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { job as repair } from '../../../jobs/repair.ts';
import type { LostWindow } from '../../../src/archive/format/coverage.ts';
import type { Manifest } from '../../../src/archive/format/manifest.ts';
import { damageKinds } from '../damages.ts';
import type { Lake, Started } from './lake.ts';

// Damage to published files, and its repair.

type Ticks = ReadonlyMap<string, ReadonlyMap<number, number>>;

/** A tick that was published and is gone. */
export interface LostTick {
  readonly symbol: string;
  readonly t: number;
}

/** A repair without an upstream: it keeps only what it found intact. */
export const startLocalRepair = (lake: Lake): Started =>
  lake.start(
    'mend',
    (context, flags) => {
      const { settings } = context;
      const alone = { ...settings, upstream: { ...settings.upstream, baseUrl: null } };
      return repair.run({ ...context, settings: alone }, flags);
    },
    { fromUrl: null },
  );

export const startRepair = (lake: Lake): Started => lake.start('repair', repair.run, { fromUrl: null });

const manifestIn = (root: string): Manifest | null => {
  const path = join(root, 'manifest.json');
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Manifest) : null;
};

/** Windows that the archive reports as lost. */
export const readLost = (root: string): readonly LostWindow[] => manifestIn(root)?.lost ?? [];

// The power-loss model does not support links.
const kinds = Object.keys(damageKinds).filter((kind) => !kind.includes('link'));

/** Damages one or two published files, usually of ticks, and returns their paths; empty if there are no files. */
export function damageFiles({ root, draw, machine, trace }: Lake): string[] {
  const manifest = manifestIn(root);
  if (manifest === null) return [];
  const all = Object.values(manifest.datasets).flatMap(({ files }) => files);
  if (all.length === 0) return [];
  const drawn = Array.from({ length: draw.chance(0.3) ? 2 : 1 }, () => {
    const { files } = manifest.datasets.ticks;
    return draw.one(files.length > 0 && draw.chance(0.6) ? files : all).path;
  });
  const paths = [...new Set(drawn)];
  for (const path of paths) trace(`damage ${damageKinds[draw.one(kinds)]!(root, path, draw).description}`);
  machine.resyncDisk();
  return paths;
}

/**
 * Errors of a repair without an upstream; `before` is everything published. No remaining row may differ, and no removed
 * row may still be covered.
 */
export function findLost({ reader, audit }: Lake, before: Ticks): LostTick[] {
  const now = reader.ticks();
  const covered = audit.coverage();
  const lost: LostTick[] = [];
  for (const [symbol, prices] of before) {
    const claims = covered.get(symbol) ?? [];
    for (const [t, p] of prices) {
      const remaining = now.get(symbol)?.get(t);
      if (remaining === p) continue;
      if (remaining !== undefined) throw new Error(`repair: ${symbol} at ${t} was ${p} and is ${remaining}`);
      if (claims.some(({ from, to }) => from <= t && t < to))
        throw new Error(`repair: ${symbol} at ${t} is gone and covered`);
      lost.push({ symbol, t });
    }
  }
  for (const [symbol, prices] of now)
    for (const t of prices.keys())
      if (!before.get(symbol)?.has(t)) throw new Error(`repair: ${symbol} at ${t} was not there before`);
  return lost;
}
