import type { Log } from '../../src/base/ports.ts';

export interface Line {
  readonly level: string;
  readonly message: string;
  readonly facts: Record<string, unknown>;
}

/** A log that keeps its lines. */
export function noted(): { log: Log; lines: Line[] } {
  const lines: Line[] = [];
  const at = (level: string) => (facts: object, message: string) =>
    void lines.push({ level, message, facts: facts as Record<string, unknown> });
  return { log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }, lines };
}
