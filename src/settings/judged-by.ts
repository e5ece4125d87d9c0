import type { CompletenessRules } from '../core/completeness.ts';
import { dayMs } from '../core/window.ts';
import type { Settings } from './settings.ts';

const minuteMs = 60_000;

/** By what the settings have an archive judged: the same for whoever writes it, reads it or serves it. */
export const toCompletenessRules = ({
  symbols,
  source,
  archive,
}: Pick<Settings, 'symbols' | 'source' | 'archive'>): CompletenessRules => ({
  namedSymbols: symbols.length === 0 ? null : new Set(symbols),
  views: source.views,
  lifetimeRules: {
    lookbackMs: source.firstLookbackDays * dayMs,
    lingerMs: source.lingerDays * dayMs,
    settleMs: archive.settleMinutes * minuteMs,
  },
});
