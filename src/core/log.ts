/** One fact-first line: `log.info({ symbol, ticks }, 'published')`. A pino logger is one. */
export interface Log {
  debug(facts: object, message: string): void;
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}
