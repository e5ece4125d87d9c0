const majorMin = 24;

/** Throws a sentence on what to do where Node is too old for the tests: `npx vitest` and editors take the machine's own. */
export function requireNode(version: string): void {
  if (Number.parseInt(version.replace(/^v/, ''), 10) >= majorMin) return;
  const error = new Error(
    `The tests need Node ${majorMin} or newer; this is ${version}. Run \`make test\`, which installs its own Node, or put ` +
      'that one first: `make setup && export PATH="$PWD/.node/bin:$PATH"`. In an editor, choose .node/bin/node.',
  );
  // Vitest prints the stack, and where this sentence comes from helps nobody.
  error.stack = error.message;
  throw error;
}
