const majorMin = 24;

/** Throws an error with advice if Node is too old for the tests: `npx vitest` and editors use the machine's own. */
export function requireNode(version: string): void {
  if (Number.parseInt(version.replace(/^v/, ''), 10) >= majorMin) return;
  const error = new Error(
    `The tests need Node ${majorMin} or newer; this is ${version}. Run \`make test\`, which installs its own Node, or put ` +
      'that one first: `make setup && export PATH="$PWD/.node/bin:$PATH"`. In an editor, choose .node/bin/node.',
  );
  // Vitest prints the stack, which does not help here.
  error.stack = error.message;
  throw error;
}
