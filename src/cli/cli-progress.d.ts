/** The part of cli-progress 3.12 that progress.ts uses; the package ships no types. */
declare module 'cli-progress' {
  interface BarOptions {
    readonly format: string;
    readonly stream: NodeJS.WritableStream;
    /** Characters. */
    readonly barsize: number;
    /** Redraws a second. */
    readonly fps: number;
    readonly forceRedraw: boolean;
    readonly gracefulExit: boolean;
  }

  class SingleBar {
    constructor(options: BarOptions);
    start(total: number, startValue: number, payload: Readonly<Record<string, string>>): void;
    setTotal(total: number): void;
    update(value: number, payload: Readonly<Record<string, string>>): void;
    stop(): void;
  }

  const cliProgress: { readonly SingleBar: typeof SingleBar };
  export default cliProgress;
}
