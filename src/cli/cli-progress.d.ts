/** The part of cli-progress 3.12 that progress.ts uses; the package ships no types. */
declare module 'cli-progress' {
  interface BarOptions {
    /** Returns the line to draw. */
    readonly format: () => string;
    readonly stream: NodeJS.WritableStream;
    /** Redraws per second. */
    readonly fps: number;
    readonly forceRedraw: boolean;
    readonly gracefulExit: boolean;
  }

  class SingleBar {
    constructor(options: BarOptions);
    start(total: number, startValue: number): void;
    update(value: number): void;
    stop(): void;
  }

  const cliProgress: { readonly SingleBar: typeof SingleBar };
  export default cliProgress;
}
