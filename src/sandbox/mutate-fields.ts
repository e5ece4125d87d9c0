import type { SandboxOptions } from './options.ts';
import type { SandboxResponse } from './response.ts';

/** The answer of a route with the fields changed that are asked to be; see SandboxOptions. */
export function reshapeResponse(
  route: 'markets' | 'ticks' | 'orderbook',
  answer: SandboxResponse,
  { reshape }: SandboxOptions,
): SandboxResponse {
  const changes = Object.entries(reshape).filter(([field]) => field.startsWith(`${route}:`));
  if (changes.length === 0 || answer.status !== 200) return answer;
  const body: unknown = JSON.parse(answer.body);
  for (const [field, how] of changes) changeField(body, field.slice(route.length + 1).split('/'), how);
  return { ...answer, body: JSON.stringify(body) };
}

function changeField(value: unknown, [name, ...rest]: string[], how: string): void {
  if (typeof value !== 'object' || value === null || name === undefined) return;
  const members = value as Record<string, unknown>;
  for (const key of name === '*' ? Object.keys(members) : [name]) {
    if (!Object.hasOwn(members, key)) continue;
    if (rest.length > 0) changeField(members[key], rest, how);
    else if (how === 'null') members[key] = null;
    else if (how === 'text') members[key] = String(members[key]);
    else {
      if (how.startsWith('=')) members[how.slice(1)] = members[key];
      delete members[key];
    }
  }
}
