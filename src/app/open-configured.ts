import { type Archive, openArchive } from '../archive/open-archive.ts';
import { computeOverlapMs, type RecheckMemory } from '../core/rechecks.ts';
import type { LingerRules } from '../core/symbol-lifetime.ts';
import { toCompletenessRules } from '../settings/judged-by.ts';
import type { Context } from './context.ts';

// What the settings say, in the terms of those who need it.

/**
 * The archive that the settings name. Only a run that `collects` may start one, and only there it matters which
 * upstream the settings name; a mistyped --output of a reader is an error.
 */
export function openConfiguredArchive(
  context: Pick<Context, 'settings' | 'canCreateArchive' | 'version' | 'disk' | 'openDatabase' | 'randomBytes'> &
    Partial<Pick<Context, 'waitMs'>>,
  collects: boolean,
  mends = false,
): Archive {
  const { archive, source, upstream } = context.settings;
  const origin = upstream.baseUrl === null ? null : new URL(upstream.baseUrl).origin;
  const options = {
    root: archive.output,
    // Where there is none, there is nothing to mend.
    create: collects && !mends && (archive.outputNamed || context.canCreateArchive),
    upstream: collects ? (source.name ?? origin) : null,
    parts: archive.parts,
    writer: `oddslake ${context.version}`,
    settleMs: archive.settleMinutes * minuteMs,
    mends,
    ...(context.waitMs !== undefined && { waitMs: context.waitMs }),
    ...(context.randomBytes !== undefined && { randomBytes: context.randomBytes }),
  };
  return openArchive(options, context.disk, context.openDatabase);
}

const minuteMs = 60_000;

/** When a symbol's lifetime begins, and when one that turned inactive is left alone. */
export const getLingerRules = ({ settings }: Context): LingerRules => toCompletenessRules(settings).lifetimeRules;

/** How far before its cursor a poll reads again by now, in ms: as configured, or farther where ticks come later. */
export const getOverlapMs = ({ settings }: Context, memory: RecheckMemory): number =>
  computeOverlapMs(memory, settings.poll.overlapMinutes * minuteMs, settings.poll.overlapMinutesMax * minuteMs);

/** How far ahead of ours the service's clock may be, in ms. */
export const getFutureSkewMs = ({ settings }: Pick<Context, 'settings'>): number =>
  settings.poll.futureSkewSeconds * 1000;

/** Symbols that the config names, or null where the market lists decide. */
export const getConfiguredSymbols = ({ settings }: Context): ReadonlySet<string> | null =>
  toCompletenessRules(settings).namedSymbols;
