// Module of a thread that fails at start.
throw new Error('no room for this thread');
