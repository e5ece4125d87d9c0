import { gapReasons } from '../core/gap-reasons.ts';
import { archiveStates, type CompletenessCounts, dayStates } from '../core/verdict.ts';
import type { Sample } from './metric-definitions.ts';

/** How whole the archive is; null leaves every figure unknown. */
export function toVerdictSamples(verdict: CompletenessCounts | null): Sample[] {
  const one = (name: string, value: number | undefined, labels: Record<string, string> = {}): Sample => ({
    name: `oddslake_${name}`,
    labels,
    value: value ?? Number.NaN,
  });
  return [
    ...archiveStates.map((state) =>
      one('archive_state', verdict === null ? Number.NaN : Number(verdict.state === state), { state }),
    ),
    ...dayStates.map((state) => one('dates', verdict?.days[state], { state })),
    ...gapReasons.map((reason) => one('gaps', verdict?.gaps[reason], { reason })),
    one('windows_provisional', verdict?.provisional),
    one('symbols_suspended', verdict?.suspended),
    one('damaged_files', verdict?.damaged.files),
  ];
}
