import type { FaultKind } from './faults.ts';
import { type Answer, comeBackLater, problem } from './response.ts';

/** The answer that a fault puts in the place of the right one; undefined for faults of other kinds. */
export function faultAnswer(fault: FaultKind | undefined, nowMs: number): Answer | undefined {
  switch (fault) {
    case '429-seconds':
      return comeBackLater(429, 1000, 'seconds', nowMs);
    case '429-date':
      return comeBackLater(429, 1000, 'date', nowMs);
    case '503':
      return comeBackLater(503, 1000, 'seconds', nowMs);
    case '408':
    case '425':
    case '500':
    case '502':
    case '504':
      return problem(Number(fault), 'a fault asked for');
    case 'html':
      return {
        status: 200,
        headers: { 'content-type': 'text/html' },
        body: '<!doctype html><title>One moment</title>\n',
      };
    default:
      return undefined;
  }
}
