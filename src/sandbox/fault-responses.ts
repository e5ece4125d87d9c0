import type { FaultKind } from './faults.ts';
import { createProblem, createRetryAfterProblem, type SandboxResponse } from './response.ts';

/** The answer that a fault puts in the place of the right one; undefined for faults of other kinds. */
export function createFaultResponse(fault: FaultKind | undefined, nowMs: number): SandboxResponse | undefined {
  switch (fault) {
    case '429-seconds':
      return createRetryAfterProblem(429, 1000, 'seconds', nowMs);
    case '429-date':
      return createRetryAfterProblem(429, 1000, 'date', nowMs);
    case '503':
      return createRetryAfterProblem(503, 1000, 'seconds', nowMs);
    case '408':
    case '425':
    case '500':
    case '502':
    case '504':
      return createProblem(Number(fault), 'a fault asked for');
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
