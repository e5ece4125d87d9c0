// The entry of a thread that cannot even start.
throw new Error('no room for this thread');
