import { many } from '../core/amounts.ts';
import { isoUtc } from '../core/time.ts';
import type { KnownDamage } from '../state/damage.ts';

/** What is said wherever damage is known; null where there is none. */
export function damageSentence(damage: readonly KnownDamage[]): string | null {
  const [first] = damage;
  if (first === undefined) return null;
  const { path, kind, foundAt } = first;
  const others = damage.length === 1 ? '' : ` and ${many(damage.length - 1, 'other file')}`;
  const verb = damage.length === 1 ? 'is' : 'are';
  return `${path}${others} ${verb} not as published (${kind}, found ${isoUtc(foundAt)}); to mend it: oddslake verify --repair`;
}
